"""What stages the rows of a batch, and sends what is staged: jobs of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from oncelog.spark import task_errors
from oncelog.spark.kit import counting, spark_files
from oncelog.spark.kit.session_settings import changed
from oncelog.spark.kit.staging import room_for_files
from oncelog_search import documents
from oncelog_search.documents import Documents
from oncelog_search.sending import SendTask, Sent, send

_SENT: Final = "records long, newest long, problem string"
"""What a task reports; see `Sent.row`."""

_RECORDS_AT_A_TIME: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Written(NamedTuple):
    """What a job staged.

    Attributes:
        rows: how many.
        largest: bytes of the largest record.
    """

    rows: int
    largest: int


class Staged(NamedTuple):
    """What is in files.

    Attributes:
        rows: how many.
        twice: an action that two of them have; None if all are different.
    """

    rows: int
    twice: str | None = None


class Job(Protocol):
    """Stages the rows of a batch, and sends those of any batch."""

    @property
    def spark(self) -> SparkSession:
        """Whose file systems are used."""

    @property
    def schema(self) -> StructType:
        """Of the rows."""

    def write(self, folder: str, planned: Documents) -> Written:
        """Write the rows as records into a new folder, once."""

    def staged(self, files: Sequence[str], *, are_keyed: bool) -> Staged:
        """What is in these files; for keyed rows, also whether two have the same key."""

    def send(self, files: Sequence[str], at_a_time: int, task: SendTask) -> list[Sent]:
        """Send the records of these files; a task has so many of them in its memory."""


class SparkJob:
    """The plan of a batch in Spark."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @property
    def spark(self) -> SparkSession:
        return self._rows.sparkSession

    @property
    def schema(self) -> StructType:
        return self._rows.schema

    def write(self, folder: str, planned: Documents) -> Written:
        """Run the plan once, and leave its rows as records in a new folder.

        Raises:
            InvalidRecordError: a value breaks a rule.
            FileWriteError: there is no space.
            NotPreparedError: Spark did not say how many rows there are.
            OncelogError: a task raised it.
        """
        observation = Observation()
        counts = F.count(F.lit(1)).alias("rows"), F.max(F.octet_length("value")).alias("largest")
        with room_for_files(), task_errors.in_one_sentence():
            writer = documents.lines(self._rows, planned).observe(observation, *counts).write.format("text")
            writer.options(**documents.WRITING).options(**spark_files.WRITER).save(folder)
        found = counting.observed(observation)
        return Written(int(found["rows"]), int(found["largest"] or 0))

    def staged(self, files: Sequence[str], *, are_keyed: bool) -> Staged:
        records = self._staged(files)
        if not are_keyed:
            return Staged(records.count())
        parts = min(len(files), self.spark.sparkContext.defaultParallelism)
        return Staged(*documents.count_and_action_twice(records, parts))

    def send(self, files: Sequence[str], at_a_time: int, task: SendTask) -> list[Sent]:
        """Send the records; each task those of some files, or of a part of one.

        Raises:
            UsageError: the executors' Python cannot run tasks.
        """
        with changed(self.spark, {_RECORDS_AT_A_TIME: str(at_a_time)}), task_errors.in_one_sentence():
            found = self._staged(files).mapInArrow(_task_function(task), _SENT).collect()
        return [Sent.of_row(*row) for row in found]

    def _staged(self, files: Sequence[str]) -> DataFrame:
        return self.spark.read.options(**documents.READING).text(list(files))


def _task_function(task: SendTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records, newest, problem = send(task, batches).row()
        columns = {"records": pa.array([records]), "newest": pa.array([newest])}
        yield pa.record_batch({**columns, "problem": pa.array([problem], pa.string())})

    return send_records
