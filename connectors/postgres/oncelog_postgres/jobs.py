"""What writes the rows of a batch: the plan of a batch in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from oncelog.spark import task_errors
from oncelog_postgres import columns
from oncelog_postgres.columns import StagedColumn
from oncelog_postgres.staging import Copied, CopyTask, copy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Job(Protocol):
    """Writes the rows of a batch."""

    @property
    def schema(self) -> StructType:
        """Of the rows."""

    def run(self, planned: Sequence[StagedColumn], task: CopyTask) -> list[Copied]:
        """Copy the rows once, in these columns; returns what the tasks that won have copied."""


class SparkJob:
    """The plan of a batch in Spark."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @property
    def schema(self) -> StructType:
        return self._rows.schema

    def run(self, planned: Sequence[StagedColumn], task: CopyTask) -> list[Copied]:
        """Run the plan once; each task copies its rows.

        Raises:
            UsageError: the executors' Python cannot run tasks.
            OncelogError: a task failed; see failures.py.
        """
        rows, names = columns.select(self._rows, planned), [column.name for column in planned]
        with task_errors.in_one_sentence():
            found = rows.mapInArrow(_task_function(task, names), "token long, rows long").collect()
        return [Copied(*row) for row in found]


def _task_function(
    task: CopyTask, names: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def copy_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        copied = copy(task, (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches))
        if copied is not None:
            yield pa.record_batch({"token": pa.array([copied.token]), "rows": pa.array([copied.rows])})

    return copy_rows
