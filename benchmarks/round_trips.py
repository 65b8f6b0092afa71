"""What a micro-batch asks of the znode store: multis and reads, by phase. On ZooKeeper each is a round trip."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import data
from benchmarks.report import Finding
from oncelog import crash_points, limits, runtime
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.log.files import file_store
from oncelog.ports import Op, Znode, ZnodeReader
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import LogTarget
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import TaskWriter, WriteTask, Written
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from tests.support.log.wrapped import WrappedStore

EXPLANATION = """\
The requests that one micro-batch of a sink makes to the znode store. On ZooKeeper every request is a round trip. 100
tasks write blocks for 100 partitions, and nobody else writes. Reads that are requested together count once. The peer is
the same batch, written by one task."""

TASKS = 100
PARTITIONS = 100
MULTIS_AT_MOST = 12

PHASES: dict[str, str] = {
    CrashPoint.SINK_PLAN: "plan",
    CrashPoint.SINK_PLANNED: "append",
    CrashPoint.ROUND_DECIDE: "decide",
    CrashPoint.ROUND_DECIDED: "settle",
}
"""What begins at a crash point."""


class CountingStore(WrappedStore):
    """A store in memory that counts, by phase, what is asked of it; its snapshots promise as little as ZooKeeper's."""

    reads_are_atomic = False

    def __init__(self) -> None:
        super().__init__(MemoryZnodeStore())
        self.phase = ""
        self.multis: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()

    def get(self, path: str) -> Znode | None:
        self.reads[self.phase] += 1
        return super().get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        self.reads[self.phase] += 1
        return super().get_many(paths)

    def children(self, path: str) -> list[str]:
        self.reads[self.phase] += 1
        return super().children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        self.reads[self.phase] += 2
        return super().children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        self.multis[self.phase] += 1
        super().multi(ops, is_fresh=is_fresh)

    def sync(self) -> None:
        self.reads[self.phase] += 1


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Count for a hundred tasks and for one."""
    many, one = (_count(folder / str(tasks), tasks) for tasks in (TASKS, 1))
    findings = []
    for phase in PHASES.values():
        asked = f"{many.multis[phase]} multis, {many.reads[phase]} reads"
        peer = f"{one.multis[phase]} multis, {one.reads[phase]} reads"
        findings.append(
            Finding(f"{phase}, {TASKS} tasks, {PARTITIONS} partitions", asked, peer, _ratio(many, one, phase))
        )
    multis = many.multis.total()
    findings.append(
        Finding(
            "all of a micro-batch",
            f"{multis} multis, {many.reads.total()} reads",
            f"{one.multis.total()} multis, {one.reads.total()} reads",
            multis / one.multis.total(),
            f"≤ {MULTIS_AT_MOST} multis",
            multis <= MULTIS_AT_MOST and many.multis["decide"] == 1,
        )
    )
    return findings


def _ratio(many: CountingStore, one: CountingStore, phase: str) -> float:
    return (many.multis[phase] + many.reads[phase]) / max(one.multis[phase] + one.reads[phase], 1)


def _count(folder: Path, tasks: int) -> CountingStore:
    """Write three batches and settle them; what the last one asked for."""
    store = CountingStore()
    files = file_store(str(folder))
    log = runtime.open_with(str(folder), None, store, files, SYSTEM_CLOCK)
    log.create_topic("t", partitions=PARTITIONS)
    options = {"path": str(folder), "topic": "t", "transactionalIdPrefix": "sink"}
    driver = BatchDriver(LogTarget(log, parse_sink_options(options, Use.FOREACH_BATCH)))
    rows = next(data.batches(PARTITIONS, 100))

    def write(task: WriteTask) -> Iterable[Written]:
        for _ in range(tasks):
            writer = TaskWriter(task)
            writer.write(rows)
            yield from writer.finish()

    def note(point: str) -> None:
        store.phase = PHASES.get(point, store.phase)

    crash_points.arm(note)
    try:
        for batch_id in range(3):
            store.multis.clear()
            store.reads.clear()
            time.sleep(2 * limits.SETTLE_LAG_MS / 1000)  # so that the batch before is settled behind this one
            driver.run(Batch(BatchRequest("sink", "query", "t", "run", batch_id, str(batch_id)), write))
    finally:
        crash_points.arm(None)
    return store
