"""What writes the rows of a batch: the plan of a batch in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from oncelog.spark import task_errors
from oncelog.spark.kit.spark_files import WRITER
from oncelog_tables import columns
from oncelog_tables.columns import WrittenColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no statistics
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Of Spark, so that it writes parquet as the formats of tables define it."""


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

    def run(self, planned: Sequence[WrittenColumn], folder: str, partitioned_by: Mapping[str, str | None]) -> None:
        """Run the plan once; Spark's parquet writer writes the rows."""
        rows = columns.select(self._rows, planned)
        for name, value in partitioned_by.items():
            if value is not None:
                rows = rows.withColumn(name, F.expr(value))
        with task_errors.in_one_sentence(), _settings(self.spark):
            writer = rows.write.options(**WRITER)
            (writer.partitionBy(*partitioned_by) if partitioned_by else writer).parquet(folder)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Have the session write as `SETTINGS` say; it is the query's own."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            if found is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, found)
