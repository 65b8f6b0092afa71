"""The source's task side: blocks become record batches in the source's columns. Touches no metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from oncelog.crash_points import CrashPoint, reach
from oncelog.log.files import file_store
from oncelog.log.segment import read_block
from oncelog.spark import schema
from oncelog.spark.planner import ReadTask


def record_batches(task: ReadTask, *, include_headers: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a task, a batch per block, columns exactly as the source's schema says."""
    files = file_store(task.path)
    wanted = ("key", "value", "timestamp_ms", "headers") if include_headers else ("key", "value", "timestamp_ms")
    for piece in task.slices:
        reach(CrashPoint.TASK_READ)
        records = read_block(files, piece.block, columns=wanted).slice(piece.first_row, piece.count)
        first_offset = piece.base_offset + piece.first_row
        yield schema.to_read_batch(records, task.topic, task.partition, first_offset, include_headers=include_headers)
