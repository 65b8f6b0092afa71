"""Readers: consumers at both isolation levels, with and without groups, and planners like those in Spark's source."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.clients.consumer import Consumer
from oncelog.errors import DataLossError, OffsetOutOfRangeError, OncelogError, OutcomeUnknownError
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.spark.kit.options import Use
from oncelog.spark.options import SourceOptions, parse_source_options
from oncelog.spark.planner import SourcePlanner
from oncelog.testing.history import (
    Fetch,
    Fetched,
    Piece,
    Plan,
    Planned,
    Poll,
    Polled,
    Recorder,
    Stage,
    is_whole,
    placed_runs_of,
)
from oncelog.types import ConsumerRecord, IsolationLevel, TopicIdPartition, TopicPartition
from simulation.clients import Client, number_of, persevere, pieces_of
from simulation.processes import Process
from simulation.world import World

ALL = 1_000_000
"""More records than any run writes."""


class ReadingClient(Client):
    """A consumer that polls several times, at either isolation level, with or without a group.

    Args:
        partitions: its assignment.
        isolation: of its reads.
        group: the group whose positions it continues from and commits, if any.
        polls: how many in each life.
        max_records: of one poll.
    """

    def __init__(
        self,
        world: World,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        group: str | None = None,
        polls: int = 5,
        max_records: int = ALL,
    ) -> None:
        super().__init__(world, name, lives=2)
        self.partitions = list(partitions)
        self._isolation = isolation
        self.group = group
        self._polls = polls
        self._max_records = max_records

    def leave_out(self, topic: str) -> bool:
        self.partitions = self._left(self.partitions, lambda where: where.topic != topic)
        return True

    def live(self, process: Process) -> None:
        chance = self.world.chance
        reader = RecordedConsumer(self.world, process, process.open(), self.partitions, self._isolation, self.group)
        for _ in range(self._polls):
            try:
                persevere(process, lambda: reader.poll(self._max_records))
            except DataLossError:  # retention removed the records
                reader.begin_anew()
            if self.group is not None and chance.random() < 0.5:
                persevere(process, reader.commit)
            process.sleep_ms(chance.randrange(400))


class RecordedConsumer:
    """A consumer whose polls are recorded in the history."""

    def __init__(
        self,
        world: World,
        process: Process,
        log: Log,
        partitions: Sequence[TopicPartition],
        isolation: IsolationLevel,
        group: str | None = None,
    ) -> None:
        self._world = world
        self._process = process
        self._recorder = world.recorder(process)
        self._group = group
        self._isolation = isolation
        self._partitions = list(partitions)
        self._lives = 0
        self._positions: dict[TopicPartition, int] | None = None
        self.consumer: Consumer = log.consumer(group_id=group, isolation_level=isolation, auto_offset_reset="earliest")
        if group is not None:
            persevere(process, lambda: fetch(self._recorder, self.consumer, group, self._partitions))
        persevere(process, lambda: self.consumer.assign(self._partitions))

    def begin_anew(self) -> None:
        """Continue from the log start, as a new reader."""
        self._lives += 1
        self._positions = None
        persevere(self._process, self.consumer.seek_to_beginning)

    def poll(self, max_records: int, *, is_final: bool = False) -> list[ConsumerRecord]:
        """Poll once, and return the records."""
        if self._positions is None:
            self._positions = {tp: self.consumer.position(tp) for tp in self._partitions}
        before = self._positions
        name = f"{self._process.name}:{self._lives}"
        call = self._recorder.invoke(Poll(name, self._isolation, is_final))
        records = self.consumer.poll(max_records=max_records)
        after = self._positions = {tp: self.consumer.position(tp) for tp in self._partitions}
        pieces = list(pieces_of(records, [(tp, before[tp], after[tp]) for tp in self._partitions]))
        self._recorder.ok(call, Polled(pieces, is_whole=is_whole(self.consumer)))
        self._world.counts["records read"] += len(records)
        return records

    def commit(self) -> None:
        """Commit the group's positions, without a transaction."""
        offsets = [(tp.topic, tp.partition, self.consumer.position(tp)) for tp in self._partitions]
        call = self._recorder.invoke(Stage(self._group or "", offsets))
        before = self._process.unknown_outcomes
        try:
            self.consumer.commit()
        except OutcomeUnknownError:
            self._recorder.unknown(call)
            return
        except OncelogError:
            if self._process.unknown_outcomes == before:
                self._recorder.fail(call)
            else:
                self._recorder.unknown(call)
            raise
        self._recorder.ok(call)


class PlanningClient(Client):
    """Spark's source without Spark: plans whole topics, for batch reads and for the ends of a stream's batches."""

    def __init__(self, world: World, name: str, names: Sequence[str], *, plans: int = 2) -> None:
        super().__init__(world, name, lives=2)
        self._names = list(names)
        self._plans = plans

    def leave_out(self, topic: str) -> bool:
        self._names = self._left(self._names, lambda name: name != topic)
        return True

    def live(self, process: Process) -> None:
        world, log = self.world, process.open()
        recorder, planner = world.recorder(process), SourcePlanner(log, source_options(self._names))
        for _ in range(self._plans):
            try:
                self._read(process, log, planner, recorder)
            except (DataLossError, OffsetOutOfRangeError):
                world.counts["plans overtaken by retention"] += 1
            process.sleep_ms(world.chance.randrange(500))

    def _read(self, process: Process, log: Log, planner: SourcePlanner, recorder: Recorder) -> None:
        """Plan and read everything, like a batch read."""
        call = recorder.invoke(Plan())
        seen = persevere(process, planner.plan)
        ends = planner.ends(seen)
        recorder.ok(call, Planned([(p.topic, p.partition, end) for p, end in ends.items()]))
        starts = {partition: state.log_start for partition, state in seen.partitions.items()}
        poll = recorder.invoke(Poll(f"{process.name}:{call}"))
        pieces = persevere(process, lambda: read_ranges(log, planner, starts, ends))
        recorder.ok(poll, Polled(pieces, is_whole=True))


def read_ranges(
    log: Log, planner: SourcePlanner, starts: dict[TopicIdPartition, int], ends: dict[TopicIdPartition, int]
) -> list[Piece]:
    """What the tasks of a read of these ranges return."""
    runs: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for task in planner.tasks([(partition, start, ends[partition]) for partition, start in starts.items()]):
        for piece in task.slices:
            rows = read_block(log.services.files, piece.block, columns=("value",)).slice(piece.first_row, piece.count)
            numbers = map(number_of, rows.column("value").to_pylist())
            placed = placed_runs_of(enumerate(numbers, piece.base_offset + piece.first_row))
            runs.setdefault((task.topic, task.partition), []).extend(placed)
    return [
        Piece(p.topic, p.partition, start, ends[p], runs.get((p.topic, p.partition), [])) for p, start in starts.items()
    ]


def source_options(names: Sequence[str], **more: object) -> SourceOptions:
    """Options of a source that reads these topics from the start."""
    options = {"path": "/simulated", "subscribe": ",".join(names), "startingOffsets": "earliest", **more}
    return parse_source_options(options, Use.STREAM_READ)


def fetch(
    recorder: Recorder, consumer: Consumer, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Fetch the group's committed offsets, and record that in the history."""
    call = recorder.invoke(Fetch(group))
    found = consumer.committed(partitions)
    offsets = {tp: found[tp].offset if tp in found else -1 for tp in partitions}
    recorder.ok(call, Fetched([(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]))
    return offsets
