"""A sink's driver without Spark: batches of made-up rows, written in rounds, as both doors of the sink do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.steps import BatchSteps
from oncelog.batches.transaction import run_steps
from oncelog.coordinator import rounds
from oncelog.coordinator.rounds import RoundServices
from oncelog.log import codec, generations, topics
from oncelog.log.segment import SegmentWriter
from oncelog.ports import ZnodeView
from oncelog.randomness import random_id
from oncelog.runtime import Log
from oncelog.types import Block, TopicIdPartition, TopicPartition
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, columns, log_world, values

PREFIX = "sink"
SOURCE = "source"
GROUP = "sink-progress"


def request(batch_id: int, run_id: str = "run-1", **fields: str | None) -> BatchRequest:
    """A batch of the query; its fingerprint follows from its id, as for a true replay."""
    known: dict[str, str | None] = {
        "prefix": PREFIX,
        "query_id": "query",
        "sink_name": TOPIC,
        "fingerprint": f"offsets of {batch_id}",
        "call_id": random_id(),
    }
    return BatchRequest(batch_id=batch_id, run_id=run_id, **{**known, **fields})  # type: ignore[arg-type]


def written(log: Log, rows: Mapping[int, list[bytes]], topic: str = TOPIC) -> dict[TopicIdPartition, list[Block]]:
    """What the tasks hand to the driver: rows by partition, in durable files that no znode names."""
    files, store = log.services.files, log.services.store
    where = topics.partitions_of(store, topic)
    writer = SegmentWriter(files, generations.prefix(generations.DATA, generations.current(store)))
    found = {
        where[number]: [
            block for value in sent for block in writer.append(codec.normalise(columns(value), default_timestamp_ms=0))
        ]
        for number, sent in rows.items()
    }
    writer.finish()
    return found


class Round(rounds.Round):
    """A round of a driver with one sink, which is decided at once."""

    def decide(self, also: Callable[[ZnodeView], None] | None = None) -> None:  # type: ignore[override]
        run_steps(self._store, [lambda: super(Round, self).decide(also)])


def plan_round(
    services: RoundServices,
    asked: BatchRequest,
    *,
    timeout_ms: int = limits.ROUND_TIMEOUT_MS,
    is_alone: bool = True,
) -> Round | None:
    """Plan a batch. None if it was decided before."""
    steps = BatchSteps(EMBEDDED, services.store, asked)
    found: list[rounds.Round | None] = []
    run_steps(
        services.store,
        [lambda: rounds.plan(services, steps, found.append, timeout_ms=timeout_ms, is_alone=is_alone)],
    )
    opened = found[-1]
    return None if opened is None else Round(services, steps, opened._opened)


def begin(log: Log, batch_id: int, run_id: str = "run-1", *, timeout_ms: int = 1000, **fields: str | None) -> Round:
    """Plan a batch that must be new."""
    round_ = plan_round(log.services.new_round_services(), request(batch_id, run_id, **fields), timeout_ms=timeout_ms)
    assert round_ is not None
    return round_


@contextmanager
def joining_world(folder: Path) -> Iterator[LogWorld]:
    """A log whose store says that steps are dear."""
    with log_world(folder) as found:
        found.store().joins_steps = True  # type: ignore[misc]
        yield found


@dataclass
class Sink:
    """One run of a streaming query: its driver, and the checkpoint that outlives it.

    Attributes:
        finished: ids of the batches that the checkpoint knows as done.
    """

    finished: list[int] = field(default_factory=list)
    runs: int = 0

    def run(self, log: Log, batches: int, *, partitions: int = 2) -> None:
        """Start the query anew and run it to its end: what the checkpoint does not know as done is run (again)."""
        self.runs += 1
        run_id = f"run-{self.runs}"
        for batch_id in range(len(self.finished), batches):
            run_batch(log, request(batch_id, run_id, group_id=GROUP), partitions=partitions)
            self.finished.append(batch_id)


def rows_of(batch_id: int, number: int) -> list[bytes]:
    return [b"batch-%d-%d" % (batch_id, number), b"batch-%d-%d too" % (batch_id, number)]


def run_batch(log: Log, wanted: BatchRequest, *, partitions: int = 2) -> bool:
    """Write a batch to all partitions, with its source offsets; returns whether it was written now."""
    round_ = plan_round(log.services.new_round_services(), wanted)
    if round_ is None:
        return False
    round_.write(written(log, {number: rows_of(wanted.batch_id, number) for number in range(partitions)}))
    round_.stage_offsets(offsets(log, wanted.batch_id))
    round_.decide()
    return True


def offsets(log: Log, batch_id: int, group_id: str = GROUP) -> GroupProgress[TopicIdPartition]:
    """The source offsets of a batch: ten rows each."""
    (source,) = topics.partitions_of(log.services.store, SOURCE)
    return GroupProgress(group_id, {source: 10 * batch_id}, {source: 10 * batch_id + 10})


def expected(batches: int, number: int) -> list[bytes]:
    """What a partition holds after so many batches."""
    return [value for batch_id in range(batches) for value in rows_of(batch_id, number)]


def committed(log: Log) -> int | None:
    """How far the sink's group is in the source."""
    source = TopicPartition(SOURCE, 0)
    with log.consumer(group_id=GROUP) as consumer:
        found = consumer.committed([source])
    return found[source].offset if found else None


def assert_written_once(log: Log, batches: int) -> None:
    assert [values(log, number) for number in (0, 1)] == [expected(batches, number) for number in (0, 1)]
    assert committed(log) == 10 * batches


def struck_at_every_multi(
    new_world: Callable[[Path], AbstractContextManager[LogWorld]], folder: Path, fault: Fault
) -> Iterator[tuple[LogWorld, FaultyStore]]:
    """A log and its store for each multi of a run: the fault happens to that one. Ends when a run has no more of them.

    Args:
        new_world: a log in a folder.
        folder: of all of them.
    """
    for at in range(100):
        with new_world(folder / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            world.log.create_topic(SOURCE)
            store = FaultyStore(world.store(), fault, at)
            yield world, store
            if not store.has_struck:
                return
    raise AssertionError("the driver never came to its end")


def restarted_at_every_multi(
    new_world: Callable[[Path], AbstractContextManager[LogWorld]],
    folder: Path,
    fault: Fault,
    batches: int,
    *,
    ends: Sequence[type[BaseException]],
) -> int:
    """Let a fault end a run of a few batches at each of its multis in turn, and check that its restart completes it.

    Args:
        new_world, folder, fault: as of `struck_at_every_multi`.
        batches: in a run.
        ends: what a run may end by.

    Returns:
        How many multis a run has.
    """
    runs = 0
    for world, store in struck_at_every_multi(new_world, folder, fault):
        sink = Sink()
        with suppress(*ends):
            sink.run(world.open(store), batches)
        in_log = len(values(world.log, 0)) // 2
        assert [values(world.log, number) for number in (0, 1)] == [expected(in_log, number) for number in (0, 1)]
        assert in_log in (len(sink.finished), len(sink.finished) + 1)

        sink.run(world.open(), batches)
        assert_written_once(world.log, batches)
        runs += 1
    return runs - 1
