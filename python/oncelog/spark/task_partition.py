"""A `ReadTask` on its way from the driver to a task: JSON within a pickle.

Spark pickles what a reader plans. Python unpickles it into a partition again; the reader in the JVM (jvm_shims/spark,
ReadTask.java) sees a call of `task_partition` and reads its argument.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

from pyspark.sql.datasource import InputPartition

from oncelog.spark.planner import ReadTask
from oncelog.types import Block, BlockSlice

_BLOCK = ("file", "position", "length", "crc32", "count", "min_timestamp_ms", "max_timestamp_ms")
_in_order = attrgetter(*(f"block.{name}" for name in _BLOCK), "base_offset", "first_row", "end_row")


class TaskPartition(InputPartition):
    """A task as Spark hands it to a worker."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(None)
        self.task = task

    def __reduce__(self) -> tuple[Any, ...]:
        task = self.task
        slices = [_in_order(piece) for piece in task.slices]
        fields = {"path": task.path, "topic": task.topic, "partition": task.partition, "slices": slices}
        return task_partition, (json.dumps(fields, separators=(",", ":")),)


def task_partition(text: str) -> TaskPartition:
    """The partition that was pickled."""
    fields = json.loads(text)
    slices = tuple(BlockSlice(Block(*piece[: len(_BLOCK)]), *piece[len(_BLOCK) :]) for piece in fields["slices"])
    return TaskPartition(ReadTask(fields["path"], fields["topic"], fields["partition"], slices))
