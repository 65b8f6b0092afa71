"""``df.writeStream.format("oncelog")`` and ``df.write.format("oncelog")``; a stream uses the same ledger as `sink`.

This file deals with Spark's behaviour:
  - The tasks of `write` run in the JVM if oncelog's jar is in the session (`jvm_tasks`).
  - `write` gets no batch id, so a task sends the local properties that name its query and run in its message.
  - `commit` runs in another process, and is called again after a crash, even if it had succeeded (the ledger makes the
    second call a no-op).
  - `streamWriter` is called at planning and again before each commit. So it writes only a hold, which keeps collection
    from deleting the tasks' files before anything names them.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog.batches.attempt import Batch
from oncelog.batches.run import BatchDriver
from oncelog.errors import (
    BatchRefusedError,
    InvalidOptionError,
    OutcomeUnknownError,
    RetriableError,
    UsageError,
    ensure,
)
from oncelog.log import generations
from oncelog.ports import ZnodeStore
from oncelog.spark import group_offsets, jvm_tasks, schema
from oncelog.spark.kit import context
from oncelog.spark.kit.requests import batch_request
from oncelog.spark.kit.warning import warn_without_prefix
from oncelog.spark.log_target import LogTarget, commit_once, write_task
from oncelog.spark.logs import open_log
from oncelog.spark.options import SinkOptions
from oncelog.spark.writing import Written, write_all


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task wrote, for which run of which query, and under which hold."""

    written: Sequence[Written]
    query_id: str | None
    run_id: str | None
    hold: str


def task_message(text: str) -> TaskMessage:
    """Unpickle what a task of the jar sent (TaskWriters.java)."""
    found = json.loads(text)
    return TaskMessage(jvm_tasks.written(found["written"]), found["queryId"], found["runId"], found["hold"])


class _Writer:
    """What both writers share: the task side and the hold."""

    def __init__(self, options: SinkOptions, columns: StructType) -> None:
        schema.check_sink_schema(columns, options.topic)
        self._options = options
        log = open_log(options.path, options.znodes)
        writer = f"a write of Spark into {options.topic or 'topics its rows name'}"
        self._hold = generations.hold(log.services.store, writer, options.checkpoint_location or "")
        self._task = write_task(log, options)

    def __reduce__(self) -> tuple[Any, ...]:
        """The jar's tasks need the text only, and read nothing else of a pickled writer (PlannedWrite.java)."""
        text = json.dumps({"task": jvm_tasks.described(self._task), "hold": self._hold})
        return revived, (text, pickle.dumps((type(self), self.__dict__)))

    def _write(self, rows: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        ensure(task is not None, "a task has a context")
        return TaskMessage(
            write_all(self._task, rows),
            task.getLocalProperty("sql.streaming.queryId"),  # type: ignore[union-attr]
            task.getLocalProperty("spark.jobGroup.id"),  # type: ignore[union-attr]
            self._hold,
        )

    def _release(self, messages: Sequence[WriterCommitMessage | None], *also: str) -> None:
        """Release the holds of this write. One that cannot be released now expires by itself."""
        held = {self._hold, *also, *(message.hold for message in messages if isinstance(message, TaskMessage))}
        with suppress(RetriableError, OutcomeUnknownError):
            generations.release(self._store(), held)

    def _store(self) -> ZnodeStore:
        return open_log(self._options.path, self._options.znodes).services.store


def revived(_: str, pickled: bytes) -> _Writer:
    """Unpickle a writer."""
    kind, fields = pickle.loads(pickled)
    writer: _Writer = kind.__new__(kind)
    writer.__dict__.update(fields)
    return writer


def _messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    found = [message for message in messages if isinstance(message, TaskMessage)]
    ensure(len(found) == len(messages), "every task that succeeded sent a message")
    return found


_targets: dict[tuple[int, SinkOptions], LogTarget] = {}


def _target_of(options: SinkOptions) -> LogTarget:
    """The target of a sink, kept per process, because upkeep becomes due by what a target remembers of its commits."""
    key, log = (os.getpid(), options), open_log(options.path, options.znodes)
    if key not in _targets or _targets[key].log is not log:
        _targets[key] = LogTarget(log, options)
    return _targets[key]


class StreamWriter(_Writer, DataSourceArrowWriter, DataSourceStreamWriter):
    """A streaming write: each micro-batch is one round of the ledger.

    It has two base classes because Spark 4.0 has no stream writer for Arrow batches, and every version of Spark passes
    Arrow batches to any subclass of `DataSourceArrowWriter`.
    """

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        try:
            self._commit(_messages(messages), batchId)
        except BaseException:
            self._release(messages)
            raise
        self._release(messages, *generations.holds_of_stream(self._store(), self._hold))

    def _commit(self, sent: Sequence[TaskMessage], batch_id: int) -> None:
        options = self._options
        batch = context.of_checkpoint(options.checkpoint_location or "", batch_id)
        runs = {message.run_id for message in sent}
        if len(runs) != 1 or None in runs:
            raise BatchRefusedError("the tasks of a micro-batch name no single run", runs=sorted(map(str, runs)))
        if batch_id == 0:  # each batch is committed in a process of its own
            warn_without_prefix(options, batch.query_id)
        request = batch_request(options, batch, str(runs.pop()))
        target = _target_of(options)
        cluster_id = target.log.cluster_id
        progress = group_offsets.of_batch(batch, options.group_id, cluster_id) if options.group_id else None
        written = [piece for message in sent for piece in message.written]
        BatchDriver(target).run(Batch(request, lambda _: written, progress, is_repeatable=True))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        """Release the holds; collection then deletes the tasks' files."""
        self._release(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A batch write: one transaction, so it is atomic. Like any batch write, it appends again if it is run again."""

    def __init__(self, options: SinkOptions, columns: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError("a log cannot be overwritten; use mode('append')", mode="overwrite")
        super().__init__(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        try:
            sent = _messages(messages)
            _refuse_micro_batches(sent)
            written = [piece for message in sent for piece in message.written]
            commit_once(open_log(self._options.path, self._options.znodes), written)
        finally:
            self._release(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Release the holds; collection then deletes the tasks' files."""
        self._release(messages)


def _refuse_micro_batches(sent: Sequence[TaskMessage]) -> None:
    """Refuse a write whose tasks ran for a streaming query: a replay of the batch would append its rows again."""
    queries = {message.query_id for message in sent} - {None}
    if queries:
        raise UsageError(
            "a batch write in a foreachBatch function is not exactly once: when Spark runs the batch again, it appends "
            "its rows again; call oncelog.spark.sink(...) in the function, with the DataFrame and the batch id",
            query_id=queries.pop(),
        )
