"""A streaming query with oncelog as source and sink: a driver, its tasks, and a checkpoint, as in Spark.

Spark itself does not run, but what it does to the sink is simulated. Tasks are retried, run twice at the same time, and
continue after their job has ended. A restarted driver replays a batch that its checkpoint does not list as done. An old
driver wakes up while the new one runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from oncelog.batches.attempt import Batch
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.run import BatchDriver
from oncelog.errors import (
    BatchRefusedError,
    DataLossError,
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    OncelogError,
    ProducerFencedError,
    RunSupersededError,
)
from oncelog.log.segment import read_block
from oncelog.runtime import Log
from oncelog.spark import group_offsets
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.options import Use
from oncelog.spark.kit.requests import batch_request
from oncelog.spark.log_target import LogTarget, commit_once, write_task
from oncelog.spark.offsets import SourceOffset, advance, parse_offset, ranges
from oncelog.spark.options import SinkOptions, SourceOptions, parse_sink_options
from oncelog.spark.planner import ReadTask, SourcePlanner
from oncelog.spark.writing import WriteTask, Written, write_all
from oncelog.testing.history import End, Ending, Recorder, Write, runs_of
from simulation.clients import Client, GaveUpError, number_of, persevere, value_of
from simulation.processes import Process
from simulation.readers import source_options
from simulation.tasks import Task
from simulation.world import World

IDLE_MAX = 3
"""A query ends when it finds nothing new this many times in a row."""


@dataclass(slots=True)
class Checkpoint:
    """A query's checkpoint.

    Attributes:
        ends: the offset log: the source's offset at the end of each batch.
        done: the commit log: the batches that the sink has completed.
        number: how many checkpoints of the query were lost before.
    """

    query_id: str
    ends: dict[int, str] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    number: int = 0

    @property
    def is_first(self) -> bool:
        """Whether no checkpoint was lost before."""
        return self.number == 0

    def successor(self) -> Checkpoint:
        """An empty checkpoint, of a new query."""
        number = self.number + 1
        return Checkpoint(f"{self.query_id.partition('/')[0]}/{number}", number=number)

    def plan(self, batch_id: int, end: str) -> None:
        """Log the end of a batch, before it runs.

        Raises:
            GaveUpError: another driver logged a different end.
        """
        if self.ends.setdefault(batch_id, end) != end:
            raise GaveUpError


class QueryClient(Client):
    """A streaming query; each life is one run of it.

    The checkpoint may be lost. Then the operator starts a new query from the offsets of the group, which takes over the
    history of the query that the ledger names. The previous run may still continue.

    Args:
        source: the topic that it reads.
        target: the topic that it writes; a record's number chooses the partition.
        partitions: of the target.
        group: the group that also holds the query's progress, if any.
        max_rows: of one batch; None for no limit.
        round_timeout_ms: how long the driver of a batch may be silent before anyone may abort the batch.
        losses: the probability, at the start of each life, that the checkpoint is lost; needs a group.
    """

    def __init__(  # noqa: PLR0913 - the options of a query
        self,
        world: World,
        name: str,
        source: str,
        target: str,
        partitions: int,
        *,
        group: str | None = None,
        max_rows: int | None = None,
        min_tasks: int = 1,
        round_timeout_ms: int = 60_000,
        losses: float = 0.0,
        lives: int = 4,
    ) -> None:
        super().__init__(world, name, lives)
        self.source = source
        self.target = target
        self.partitions = partitions
        self.max_rows = max_rows
        self.checkpoint = Checkpoint(f"query-{name}")
        self.group = group
        self._losses = losses
        more = {} if group is None else {"groupId": group}
        self._read: dict[str, object] = {"minPartitions": min_tasks, **more}
        self._write: dict[str, object] = {
            "topic": target, "transactionalIdPrefix": name, "roundTimeoutMs": round_timeout_ms, "codec": "null", **more
        }  # fmt: skip

    def read_options(self) -> SourceOptions:
        """The source options of the next run."""
        return source_options([self.source], **self._read)

    def write_options(self, log: Log) -> SinkOptions:
        """The sink options of the next run; a new query takes over the history that it finds."""
        if self.checkpoint.is_first or self.checkpoint.done:
            return sink_options(**self._write)
        ledger = EMBEDDED.read(log.services.store, self.name)
        is_another = ledger is not None and ledger.query_id != self.checkpoint.query_id
        return sink_options(**self._write, **({"takeover": ledger.query_id} if ledger and is_another else {}))

    def expects(self, error: FatalError) -> bool:
        if isinstance(error, DataLossError):
            return self.source in self.world.leaving
        return isinstance(error, (RunSupersededError, BatchRefusedError))

    def leave_out(self, topic: str) -> bool:
        self.is_done = topic in (self.source, self.target)
        return self.is_done

    def live(self, process: Process) -> None:
        if self.group is not None and self.world.chance.random() < self._losses:
            self._lose_checkpoint()
        self.go_on(process, IDLE_MAX)

    def go_on(self, process: Process, idle_max: int) -> None:
        """Run batches until nothing new was found `idle_max` times in a row."""
        log = process.open()
        checkpoint = self.checkpoint
        try:
            _Run(self, process, log).go_on(idle_max)
        except BatchRefusedError:
            # The previous run has committed beyond the offsets that this query began with: start a new query again.
            if checkpoint is self.checkpoint and not checkpoint.is_first and not checkpoint.done:
                self._lose_checkpoint()
            raise

    def catch_up(self, process: Process) -> None:
        """At the end of the run, process what is left."""
        try:
            self.go_on(process, idle_max=1)
        except BatchRefusedError:
            self.go_on(process, idle_max=1)

    def _lose_checkpoint(self) -> None:
        self.world.counts["checkpoints lost"] += 1
        self.checkpoint = self.checkpoint.successor()
        self._read["startingOffsets"] = "group"

    def expected(self) -> tuple[SourceOffset | None, SourceOffset | None]:
        """Where the completed batches begin and end."""
        if not self.checkpoint.done:
            return None, None
        return parse_offset(self.checkpoint.ends[0]), parse_offset(self.checkpoint.ends[max(self.checkpoint.done)])


class _Run:
    """One run of a query: its driver's process."""

    def __init__(self, query: QueryClient, process: Process, log: Log) -> None:
        self._query = query
        self._world = query.world
        self._process = process
        self._log = log
        self._recorder = query.world.recorder(process)
        self._checkpoint = query.checkpoint
        self._planner = SourcePlanner(log, query.read_options())
        self._options = persevere(process, lambda: query.write_options(log))
        self._driver = BatchDriver(LogTarget(log, self._options))

    def go_on(self, idle_max: int) -> None:
        """Run batches until nothing new was found `idle_max` times in a row."""
        checkpoint, idle = self._checkpoint, 0
        while idle < idle_max:
            batch_id = max(checkpoint.done, default=-1) + 1
            if batch_id not in checkpoint.ends and not self._plan(batch_id):
                idle += 1
                self._process.sleep_ms(self._world.chance.randrange(50, 400))
                continue
            self._run_batch(batch_id)

    def _plan(self, batch_id: int) -> bool:
        """Log what the next batch reads. Returns False if there is nothing new. A query's first batch is empty."""
        checkpoint, planner = self._checkpoint, self._planner
        if batch_id == 0:
            start = persevere(self._process, planner.starting)
            checkpoint.plan(0, planner.source_offset(start).to_json())
            return True
        known = parse_offset(checkpoint.ends[batch_id - 1])
        end = persevere(self._process, lambda: self._next_end(known))
        if end == known:
            return False
        checkpoint.plan(batch_id, end.to_json())
        return True

    def _next_end(self, known: SourceOffset) -> SourceOffset:
        planner = self._planner
        return advance(known, planner.next_ends(known, planner.plan(known), self._query.max_rows))

    def _run_batch(self, batch_id: int) -> None:
        checkpoint, query = self._checkpoint, self._query
        start, end = checkpoint.ends.get(batch_id - 1), checkpoint.ends[batch_id]
        context = BatchContext(checkpoint.query_id, self._process.name, "", batch_id, (start,), (end,), has_state=False)
        request = batch_request(self._options, context, context.run_id, f"{self._process.name}/{batch_id}")
        offsets = group_offsets.of_batch(context, query.group, self._log.cluster_id) if query.group else None
        told = Told(self._recorder, f"{query.name}/{batch_id}/{self._process.name}", query.name)
        before = self._process.unknown_outcomes

        def write(task: WriteTask) -> list[Written]:
            if start is None:
                return []
            reads = self._planner.tasks(list(ranges(parse_offset(start), parse_offset(end))))
            results = [self._task(read, task).run() for read in reads]
            told.writes(query.target, [number for result in results for number in result.numbers], query.partitions)
            return [piece for result in results for piece in result.written]

        try:
            report = persevere(self._process, lambda: self._driver.run(Batch(request, write, offsets)), tries=2)
        except OncelogError:
            told.failed(is_certain=self._process.unknown_outcomes == before)
            raise
        if not report.is_replay:
            told.committed()
        self._world.counts["batches replayed" if report.is_replay else "batches committed"] += 1
        self._process.wait(self._world.latency_ms())
        checkpoint.done.add(batch_id)

    def _task(self, read: ReadTask, write: WriteTask) -> Task[_Result]:
        query = self._query
        work = partial(_attempt, read=read, write=write, partitions=query.partitions)
        return Task(self._process, f"{query.name}-task", work)


class Told:
    """Records one attempt at a batch in the history."""

    def __init__(self, recorder: Recorder, name: str, producer: str) -> None:
        self._recorder = recorder
        self._name = name
        self._producer = producer
        self._attempt = 0
        self._calls: list[int] = []

    def writes(self, topic: str, numbers: Sequence[int], partitions: int) -> None:
        """These records are about to be appended, and the batch is about to be decided."""
        self.failed(is_certain=False)
        self._attempt += 1
        name = f"{self._name}/{self._attempt}"
        by_partition: dict[int, list[int]] = {}
        for number in numbers:
            by_partition.setdefault(number % partitions, []).append(number)
        self._calls = [
            self._recorder.invoke(Write(topic, runs_of(numbers), partition, name, self._producer, is_micro_batch=True))
            for partition, numbers in sorted(by_partition.items())
        ]
        self._calls.append(self._recorder.invoke(End(name, Ending.COMMIT)))

    def committed(self) -> None:
        """The driver says that the batch is committed."""
        for call in self._calls:
            self._recorder.ok(call)
        self._calls = []

    def failed(self, *, is_certain: bool) -> None:
        """The driver says that the batch failed; `is_certain` if none of it can be in the log."""
        for call in self._calls:
            (self._recorder.fail if is_certain else self._recorder.unknown)(call)
        self._calls = []


# Tasks ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Result:
    """What one attempt of a task read and wrote."""

    numbers: list[int]
    written: list[Written]


def _attempt(process: Process, read: ReadTask, write: WriteTask, partitions: int) -> _Result:
    """One attempt of a task: copy what it reads."""
    numbers: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for piece in read.slices:
            block = read_block(process.files, piece.block, columns=("value",))
            values = block.slice(piece.first_row, piece.count).column("value").to_pylist()
            numbers.extend(map(number_of, values))
            yield sink_rows(values, partitions, process.world.wall_ms())

    return _Result(numbers, write_all(write, rows(), process.files))


def sink_rows(values: Sequence[bytes], partitions: int, timestamp_ms: int) -> pa.RecordBatch:
    """Records in the sink's columns; a record's number chooses its partition."""
    numbers = [number_of(value) % partitions for value in values]
    times = [timestamp_ms] * len(values)
    columns = [pa.array(values, pa.binary()), pa.array(numbers, pa.int32()), pa.array(times, pa.timestamp("ms", "UTC"))]
    return pa.RecordBatch.from_arrays(columns, names=["value", "partition", "timestamp"])


# Batch writes ---------------------------------------------------------------------------------------------------------


class BatchWriteClient(Client):
    """Batch writes: the tasks' files in one transaction with a new transactional id."""

    def __init__(self, world: World, name: str, target: str, partitions: int, *, writes: int = 2) -> None:
        super().__init__(world, name, lives=2)
        self._target = target
        self._partitions = partitions
        self._writes = writes

    def leave_out(self, topic: str) -> bool:
        self.is_done = topic == self._target
        return self.is_done

    def expects(self, error: FatalError) -> bool:
        """Whether the transaction was aborted because the write took too long (a pause, a clock that jumped)."""
        return isinstance(error, (ProducerFencedError, InvalidTxnStateError, InvalidProducerIdMappingError))

    def live(self, process: Process) -> None:
        world, log = self.world, process.open()
        options = sink_options(topic=self._target, codec="null")
        for at in range(self._writes):
            count = world.chance.randint(1, 4)
            first = world.numbers(self._target, count)
            values = [value_of(number) for number in range(first, first + count)]
            rows = sink_rows(values, self._partitions, world.wall_ms())
            task = persevere(process, lambda: write_task(log, options))
            written = write_all(task, iter([rows]), process.files)
            told = Told(world.recorder(process), f"{process.name}/{at}", process.name)
            told.writes(self._target, range(first, first + count), self._partitions)
            before = process.unknown_outcomes
            try:
                commit_once(log, written)
            except OncelogError:
                told.failed(is_certain=process.unknown_outcomes == before)
                raise
            told.committed()


def sink_options(**options: object) -> SinkOptions:
    return parse_sink_options({"path": "/simulated", **options}, Use.FOREACH_BATCH)
