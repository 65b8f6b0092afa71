"""A log with more and more partitions: what one of them costs, and what all of them cost each."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import oncelog
from benchmarks.growth_costs import BYTES, Curve, Operation, Probe, SteppedClock
from oncelog import limits, runtime
from oncelog.clients import maintenance
from oncelog.log import snapshot, topics
from oncelog.log.files import file_store
from oncelog.metadata import open_store, place_of
from oncelog.spark.offsets import SourceOffset, TopicOffsets
from oncelog.types import IsolationLevel, TopicIdPartition
from tests.support.log.counted import CountedStore

EXPLANATION = """\
A log on SQLite with so many partitions, in topics of up to 500. Two of them are written to; the others are empty. The
plan for one partition finds its newest record, and lists the hundred batches of its tail for that. Plans for a topic
and for the log, and the settling that upkeep does, are about many partitions: their cost is that of one of them."""

CHECKED = """\
the first connection of a process checks all pages of the SQLite file, since SQLite itself would only notice damage in \
pages that it happens to use. On ZooKeeper and PostgreSQL there is no such check."""
DEEPER = "SQLite's B-tree gets deeper with the number of znodes, logarithmically."

QUICK, FULL = (10, 100, 1_000), (10, 100, 1_000, 10_000)


REASONS = {
    "open": CHECKED,
    "transaction to one partition": DEEPER,
    "transaction to two, and settling": DEEPER,
}


def run(folder: Path, *, quick: bool) -> list[Operation]:
    """Measure logs of each size."""
    curve, sizes = Curve(REASONS), QUICK if quick else FULL
    with ExitStack() as closing:
        logs = {partitions: _made(folder / str(partitions), partitions) for partitions in sizes}
        curve.measure({partitions: {"open": Probe(opening(place))} for partitions, place in logs.items()})
        opened = {partitions: closing.enter_context(OpenedLog(place, "writer")) for partitions, place in logs.items()}
        curve.measure({partitions: _probes(log, partitions) for partitions, log in opened.items()})
        for partitions, log in opened.items():
            text = json.dumps(_offset(log.log).to_dict())
            curve.add(partitions, "offset in a checkpoint, each", {BYTES: len(text) / partitions})
    return curve.operations


def opening(place: Path) -> Callable[[], None]:
    """Opens and closes a log, as a process does at its start."""
    return lambda: oncelog.open(place).close()


def _made(place: Path, partitions: int) -> Path:
    with oncelog.open(place) as log:
        for number, first in enumerate(range(0, partitions, limits.MAX_PARTITIONS)):
            log.create_topic(f"t{number}", partitions=min(limits.MAX_PARTITIONS, partitions - first))
    return place


def counted_log(folder: Path, clock: SteppedClock) -> tuple[oncelog.Log, CountedStore]:
    """A log in a folder, opened over a store that counts."""
    root, files = str(folder), file_store(str(folder))
    store = CountedStore(open_store(root, place_of(root, None), create=False, files=files))
    return runtime.open_with(root, None, store, files, clock, create=False), store


class OpenedLog:
    """A log, opened over a store that counts, and one producer. Closed at the end of a block."""

    def __init__(self, place: Path, transactional_id: str) -> None:
        self.clock = SteppedClock()
        self.log, self.store = counted_log(place, self.clock)
        self._producer = self.log.producer(transactional_id=transactional_id)
        self._producer.init_transactions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    def writing(self, *numbers: int) -> Probe:
        """A transaction to some partitions of the first topic."""

        def write() -> None:
            with self._producer.transaction():
                for number in numbers:
                    self._producer.send("t0", b"value", partition=number)

        return Probe(write, self.store, clock=self.clock)


def _probes(opened: OpenedLog, partitions: int) -> dict[str, Probe]:
    log, store = opened.log, opened.store
    one, *others = topics.partitions_of(store, "t0")

    def plan_for_topic() -> None:
        snapshot.take(store, [one, *others])

    def plan_for_log() -> None:
        snapshot.take(store, topics.all_partitions(store))

    return {
        "transaction to one partition": opened.writing(0),
        "transaction to two, and settling": opened.writing(0, 1),
        "plan for one partition": Probe(lambda: plan_of_last(log, one), store),
        "plan for a topic, each": Probe(plan_for_topic, store, each=4, share=1 + len(others)),
        "plan for the log, each": Probe(plan_for_log, store, each=2, share=partitions),
        "settling of the log, each": Probe(lambda: maintenance.settle(log.services), store, each=2, share=partitions),
    }


def plan_of_last(log: oncelog.Log, partition: TopicIdPartition) -> None:
    """Plan the last record of a partition, by a reader that has read nothing before."""
    store, isolation = log.services.store, IsolationLevel.READ_COMMITTED
    end = snapshot.take(store, [partition]).end(partition, isolation)
    files = log.services.new_index_files()
    found = snapshot.visible_range(store, files, partition, end - 2, end, isolation)
    if not found.count:
        raise RuntimeError("the plan found no row")


def _offset(log: oncelog.Log) -> SourceOffset:
    """The offset of a query that has read a million records of each partition."""
    found = topics.states(log.services.store)
    offsets = {
        name: TopicOffsets(topic.topic_id, dict.fromkeys(range(topic.partitions), 1_000_000))
        for name, topic in found.items()
    }
    return SourceOffset(log.cluster_id, None, offsets)
