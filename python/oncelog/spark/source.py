"""``format("oncelog")`` for reading: the stream and batch readers that Spark calls. The planner makes the decisions.

This file deals with Spark's behaviour. Each of these points once lost or duplicated rows:
  - `initialOffset` is not checkpointed, and is called again when batch 0 is replayed. Hence batch 0 is always empty,
    and its logged end is the durable start of the query. If no start can be found, the error is raised when batch 0 is
    planned.
  - Spark compares offsets as JSON text. "No data" is the start itself, and an end never moves backwards.
  - Trigger.Once takes everything, whatever limit the options set.
  - `commit` is called one batch late, and never for the last batch. `stop` is never called.
  - `read` runs in another process, on a pickled reader, so tasks contain everything they need. If oncelog's jar is on
    Spark's class path (`packaging`), tasks run in the JVM, and `read` is called only for logs in an object store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from oncelog.coordinator import groups
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    GroupOwnedError,
    OncelogError,
    OutcomeUnknownError,
    PlanOvertakenError,
    RetriableError,
    ensure,
)
from oncelog.log.snapshot import LogSnapshot
from oncelog.spark import reading, schema
from oncelog.spark.logs import open_log
from oncelog.spark.offsets import (
    SourceOffset,
    advance,
    check_same_log,
    parse_offset,
    ranges,
)
from oncelog.spark.options import SourceOptions
from oncelog.spark.planner import Offsets, ReadTask, SourcePlanner
from oncelog.spark.task_partition import TaskPartition
from oncelog.types import OffsetAndMetadata

NOTHING = ReadTask(path="/", topic="", partition=0, slices=())


class _Reader:
    """What both readers share. The planner is created on first use, kept, and not pickled into tasks."""

    def __init__(self, options: SourceOptions, columns: StructType) -> None:
        self._options = options
        self._columns = schema.read_columns(columns)
        self._kept_planner: SourcePlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept_planner": None}

    def _planner(self) -> SourcePlanner:
        if self._kept_planner is None:
            log = open_log(self._options.path, self._options.znodes)
            self._kept_planner = SourcePlanner(log, self._options)
        return self._kept_planner

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        ensure(isinstance(partition, TaskPartition), "a reader reads what it planned", found=str(partition))
        return reading.record_batches(cast(TaskPartition, partition).task, self._columns)


class BatchReader(_Reader, DataSourceReader):
    """``spark.read.format("oncelog")``: all ranges are planned at once, when Spark asks for the tasks."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = self._planner()
        # If there were no partition, Spark would plan one itself, which no reader could read.
        return [TaskPartition(task) for task in planner.tasks(planner.bounds()) or [NOTHING]]


class StreamReader(_Reader, DataSourceStreamReader):
    """``spark.readStream.format("oncelog")``: micro-batches of whole plans, divided only by maxOffsetsPerTrigger.

    How batches are limited depends on Spark's version, so Spark gets one of the subclasses.
    """

    def __init__(self, options: SourceOptions, columns: StructType) -> None:
        super().__init__(options, columns)
        self._is_first_batch_due = False
        self._is_first_batch_replayed = False
        self._has_planned = False
        self._no_start: OncelogError | None = None
        self._frozen: Offsets | None = None
        self._due: LogSnapshot | None = None
        self._waiting_since_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        self._is_first_batch_due = not self._has_planned  # Spark calls this again while the first batch runs
        planner, starting = self._planner(), Offsets()
        try:
            starting = planner.starting()
        except OncelogError as error:
            self._no_start = error
        return planner.source_offset(starting).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._planner().latest()

    def next_offset(self, start: dict[str, Any], *, takes_all: bool) -> dict[str, Any]:
        """Where the batch that begins at `start` ends; `start` itself if there is no batch.

        Args:
            start: the end of the last batch.
            takes_all: ignore the limits in the options, as for Trigger.Once.
        """
        self._has_planned = True
        is_first_batch = self._is_first_batch_due and not self._is_first_batch_replayed
        self._is_first_batch_due = False
        if is_first_batch:
            if self._no_start is not None:
                raise self._no_start
            return start
        reach(CrashPoint.SOURCE_PLAN)
        known = self._known(start)
        due, self._due = self._due, None
        end = self._next_end(known, due, takes_all) if due else known
        if end != known:
            return end.to_dict()
        try:
            return self._next_end(known, self._planner().plan(known), takes_all).to_dict()
        except PlanOvertakenError:
            if self._frozen is not None:
                raise  # Spark would take a batch without progress for the end of the available data
            return start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        planner = self._planner()
        try:
            return planner.source_offset(planner.latest()).to_dict()
        except RetriableError:
            return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._is_first_batch_due and not self._has_planned:
            self._is_first_batch_replayed = True
            return []  # for each scan of the batch: it was empty, whatever the start would be now
        wanted = ranges(self._known(start), parse_offset(end))
        return [TaskPartition(task) for task in self._planner().tasks(wanted)]

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's progress to the group. It only shows lag, so a failure is left to the next batch."""
        reach(CrashPoint.SOURCE_COMMIT)
        if self._options.group_id is None:
            return
        group_id, log = self._options.group_id, open_log(self._options.path, self._options.znodes)
        offsets = {p: OffsetAndMetadata(offset) for p, offset in parse_offset(end).partitions().items()}
        try:
            groups.commit(log.services.store, group_id, offsets)
        except (GroupOwnedError, RetriableError, OutcomeUnknownError):
            return  # the group is a sink's, which commits offsets with its batches; or the store is busy

    def _known(self, start: dict[str, Any]) -> SourceOffset:
        known = parse_offset(start)
        check_same_log(known, open_log(self._options.path, self._options.znodes).cluster_id)
        return known

    def _next_end(self, known: SourceOffset, seen: LogSnapshot, takes_all: bool) -> SourceOffset:
        planner = self._planner()
        here = planner.within(known, seen)
        if not takes_all and self._must_wait(planner, here, seen):
            return known
        max_rows = None if takes_all else self._options.max_offsets_per_trigger
        end = advance(here, planner.next_ends(here, seen, max_rows, ceiling=self._frozen))
        if end.partitions().keys() != known.partitions().keys():
            self._due = seen  # a query that finds new topics in every plan would otherwise never read
        return end

    def _must_wait(self, planner: SourcePlanner, known: SourceOffset, seen: LogSnapshot) -> bool:
        """Whether fewer than minOffsetsPerTrigger rows are available, and maxTriggerDelay is not over."""
        least = self._options.min_offsets_per_trigger
        is_news = any(known.offset_of(partition) is None for partition in seen.partitions)
        if least is None or self._frozen is not None or is_news:
            return False
        now_ms = time.monotonic_ns() // 1_000_000
        since_ms = self._waiting_since_ms = self._waiting_since_ms or now_ms
        if now_ms - since_ms < self._options.max_trigger_delay_ms and not planner.has_rows(known, seen, least):
            return True
        self._waiting_since_ms = None
        return False
