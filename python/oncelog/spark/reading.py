"""The task side of the source: turns blocks into record batches in the source's columns. Reads no metadata.

jvm_shims/spark does the same in the JVM; change both together.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from oncelog.crash_points import CrashPoint, reach
from oncelog.log.files import file_store
from oncelog.log.segment import read_block
from oncelog.spark import schema
from oncelog.spark.planner import ReadTask


def record_batches(task: ReadTask, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task, one batch for each block.

    Args:
        columns: exactly those that Spark was told (`schema.read_columns`).
    """
    files = file_store(task.path)
    wanted = schema.stored_columns(columns)
    for piece in task.slices:
        reach(CrashPoint.TASK_READ)
        records = read_block(files, piece.block, columns=wanted).slice(piece.first_row, piece.count)
        first_offset = piece.base_offset + piece.first_row
        yield schema.to_read_batch(records, task.topic, task.partition, first_offset, columns)
