"""How a `ReadTask` is sent from the driver to a task: as JSON within a pickle.

Spark pickles what a reader plans. A Python task unpickles it into a partition. The reader in the JVM (jvm_shims/spark,
ReadTask.java) finds a call of `task_partition` in the pickle and reads its argument.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.datasource import InputPartition

from oncelog.spark.planner import ReadTask
from oncelog.types import Block, BlockSlice, block_row


class TaskPartition(InputPartition):
    """A `ReadTask` as Spark passes it to a worker."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(None)
        self.task = task

    def __reduce__(self) -> tuple[Any, ...]:
        task = self.task
        slices = [(block_row(piece.block), piece.base_offset, piece.first_row, piece.end_row) for piece in task.slices]
        fields = (task.path, task.topic, task.partition, slices)
        return task_partition, (json.dumps(fields, separators=(",", ":")),)


def task_partition(text: str) -> TaskPartition:
    """Unpickle a partition."""
    path, topic, partition, rows = json.loads(text)
    slices = tuple(BlockSlice(Block(*row[0]), *row[1:]) for row in rows)
    return TaskPartition(ReadTask(path, topic, partition, slices))
