"""The task side of the sinks: turns rows into durable blocks.

It writes no znode, so a retry, a speculative copy or a zombie task leaves only an orphan file.

Rows arrive in the sink's columns (schema.py). Each row goes to the log partition that it names, or to that of its key's
hash. Rows without a key go to one partition for each batch of rows, in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oncelog.clients import partitioner
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import InvalidRecordError, UnknownPartitionError, UnknownTopicError
from oncelog.log import generations
from oncelog.log.files import file_store
from oncelog.log.records import normalise, split_rows
from oncelog.log.segment import BlockBuffer, SegmentWriter
from oncelog.ports import FileStore
from oncelog.randomness import random_bytes
from oncelog.spark import task_errors
from oncelog.types import BLOCK_FIELDS, Block, TopicPartition, block_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What a sink's task needs to know; it is pickled into the task.

    Attributes:
        path: root of the log.
        generation: of new files; the driver reads it before the job.
        codec: compression of the blocks.
        partitions: number of partitions of each topic that may be written.
        topic: of all rows; None if each row names its own.
    """

    path: str
    generation: int
    codec: str
    partitions: Mapping[str, int]
    topic: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """A durable block, and the log partition that it is for."""

    topic: str
    partition: int
    block: Block


class TaskWriter:
    """Writes the rows of one task attempt into new files. Their blocks may not be used before `finish`.

    Args:
        files: where to write; by default the log that `task` names.
    """

    def __init__(self, task: WriteTask, files: FileStore | None = None) -> None:
        self._task = task
        prefix = generations.prefix(generations.DATA, task.generation)
        self._files = SegmentWriter(files or file_store(task.path), prefix, codec=task.codec)
        self._buffer: BlockBuffer[TopicPartition] = BlockBuffer(self._files)
        self._written: list[Written] = []
        self._turn = int.from_bytes(random_bytes(4))

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows that are in the sink's columns.

        Raises:
            UnknownTopicError, UnknownPartitionError: a row names a topic or partition that does not exist.
            RecordTooLargeError, InvalidRecordError: a row cannot be written.
        """
        if rows.num_rows == 0:
            return
        reach(CrashPoint.TASK_WRITE)
        for topic, some in self._by_topic(rows):
            records = normalise(_record_columns(some), _now_ms())
            for number, part in split_rows(records, self._numbers(some, records, topic)):
                self._took(self._buffer.append(TopicPartition(topic, number), part))

    def finish(self) -> list[Written]:
        """Make everything durable, and return the blocks, those of each partition in the order of its rows."""
        self._took(self._buffer.flush())
        self._files.finish()
        return self._written

    def discard(self) -> None:
        """Remove what was written."""
        self._files.discard()

    def _took(self, blocks: Iterable[tuple[TopicPartition, Block]]) -> None:
        self._written += [Written(place.topic, place.partition, block) for place, block in blocks]

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._task.topic is not None:
            yield self._task.topic, rows
            return
        named = rows.column("topic").dictionary_encode()
        if named.null_count:
            raise InvalidRecordError("a row names no topic; give every row a topic, or set the sink's option topic")
        names = named.dictionary.to_pylist()
        for index, some in split_rows(rows, named.indices.to_numpy()):
            yield names[index], some

    def _numbers(self, rows: pa.RecordBatch, records: pa.RecordBatch, topic: str) -> npt.NDArray[np.integer[Any]]:
        """The log partition of each row."""
        count = self._task.partitions.get(topic)
        if count is None:
            raise UnknownTopicError("a row names a topic that does not exist; create it first", topic=topic)
        numbers = pa.nulls(rows.num_rows, pa.int32())
        if "partition" in rows.schema.names:
            numbers = rows.column("partition").cast(pa.int32())
            _check_range(numbers, topic, count)
        if numbers.null_count:
            numbers = numbers.fill_null(0) if count == 1 else self._filled(numbers, records, count)
        found: npt.NDArray[np.integer[Any]] = numbers.to_numpy()
        return found

    def _filled(self, numbers: pa.Int32Array, records: pa.RecordBatch, count: int) -> pa.Int32Array:
        keys = records.column("key")
        if keys.null_count < len(keys):
            numbers = pc.coalesce(numbers, partitioner.partitions_for_keys(keys, count))
        if numbers.null_count:
            self._turn += 1
            numbers = numbers.fill_null(self._turn % count)
        return numbers


def _record_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a record, under the names that the log uses."""
    names = {"key": "key", "value": "value", "headers": "headers", "timestamp": "timestamp_ms"}
    found = {target: rows.column(name) for name, target in names.items() if name in rows.schema.names}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _check_range(numbers: pa.Int32Array, topic: str, count: int) -> None:
    bounds = pc.min_max(numbers).as_py()
    for number in (bounds["min"], bounds["max"]):
        if number is not None and not 0 <= number < count:
            raise UnknownPartitionError(
                "a row names a partition that the topic does not have", topic=topic, partition=number, partitions=count
            )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# As a Spark job -------------------------------------------------------------------------------------------------------

_COLUMNS = {"topic": str, "partition": int, **BLOCK_FIELDS}
_DDL = ", ".join(f"{name} {'string' if kind is str else 'long'}" for name, kind in _COLUMNS.items())


def run_job(rows: DataFrame, task: WriteTask) -> list[Written]:
    """Run the plan of `rows` once; each task writes its rows. Returns the blocks in the order of the tasks.

    Raises:
        UsageError: the executors' Python cannot run tasks.
        Anything that a task raises.
    """
    with task_errors.in_one_sentence():
        found = rows.mapInArrow(_task_function(task), _DDL).collect()
    return [Written(row[0], row[1], Block(*row[2:])) for row in found]


def _task_function(task: WriteTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_all(task, batches)
        if written:
            yield _metadata(written)

    return write_rows


def write_all(task: WriteTask, batches: Iterator[pa.RecordBatch], files: FileStore | None = None) -> list[Written]:
    """Write all rows of one task attempt; an error deletes its files. For the arguments see `TaskWriter`."""
    writer = TaskWriter(task, files)
    try:
        for rows in batches:
            writer.write(rows)
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


def _metadata(written: list[Written]) -> pa.RecordBatch:
    rows = [(piece.topic, piece.partition, *block_row(piece.block)) for piece in written]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names=list(_COLUMNS))
