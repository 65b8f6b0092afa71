"""The second door: ``df.writeStream.format("oncelog")`` and ``df.write.format("oncelog")``. One mechanism with `sink`.

What this file owns are Spark's habits: `write` gets no batch id, so the task's local properties travel in its message;
`commit` runs in another process, and is called again after a crash, also when it had succeeded (the ledger makes that a
no-op); `streamWriter` runs at planning and again before each commit, so it writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog.errors import BatchRefusedError, InvalidOptionError, ensure
from oncelog.spark import context, group_offsets, schema
from oncelog.spark.driver import BatchDriver, batch_request, commit_once, write_task
from oncelog.spark.logs import open_log
from oncelog.spark.options import SinkOptions
from oncelog.spark.writing import Written, write_all


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task wrote, and of which run of which query."""

    written: Sequence[Written]
    query_id: str | None
    run_id: str | None


class _Writer:
    """What both writers share: the tasks' side."""

    def __init__(self, options: SinkOptions, columns: StructType) -> None:
        schema.check_sink_schema(columns, options.topic)
        self._options = options
        self._task = write_task(open_log(options.path, options.znodes), options)

    def _write(self, rows: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        ensure(task is not None, "a task has a context")
        return TaskMessage(
            write_all(self._task, rows),
            task.getLocalProperty("sql.streaming.queryId"),  # type: ignore[union-attr]
            task.getLocalProperty("spark.jobGroup.id"),  # type: ignore[union-attr]
        )


def _messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    found = [message for message in messages if isinstance(message, TaskMessage)]
    ensure(len(found) == len(messages), "every task that succeeded sent a message")
    return found


_drivers: dict[tuple[int, SinkOptions], BatchDriver] = {}


def _driver_of(options: SinkOptions) -> BatchDriver:
    """The driver of a sink, one per process: what it remembers of a commit makes the upkeep due at a later one."""
    key = (os.getpid(), options)
    if key not in _drivers:
        _drivers[key] = BatchDriver(open_log(options.path, options.znodes), options)
    return _drivers[key]


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A streaming write: each micro-batch is one round of the ledger."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        sent = _messages(messages)
        options = self._options
        batch = context.of_checkpoint(options.checkpoint_location or "", batchId)
        runs = {message.run_id for message in sent}
        if len(runs) != 1 or None in runs:
            raise BatchRefusedError("the tasks of a micro-batch name no run of the query", runs=sorted(map(str, runs)))
        request = batch_request(options, batch, str(runs.pop()))
        offsets = group_offsets.of_batch(batch, options.group_id) if options.group_id else None
        _driver_of(options).run(request, offsets, lambda _: (piece for message in sent for piece in message.written))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo: what the tasks wrote are orphan files, which collection removes."""


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A batch write: one transaction, so atomic. Like any batch write it appends again when it is run again."""

    def __init__(self, options: SinkOptions, columns: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError("a log is appended to; use mode('append')", mode="overwrite")
        super().__init__(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [piece for message in _messages(messages) for piece in message.written]
        commit_once(open_log(self._options.path, self._options.znodes), written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what the tasks wrote are orphan files, which collection removes."""
