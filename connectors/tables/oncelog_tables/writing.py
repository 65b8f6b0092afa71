"""Spark's parquet writer, set up so that it writes what the formats of tables define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from oncelog.spark import task_errors
from oncelog.spark.kit.spark_files import WRITER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no statistics
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",  # of the columns whose metadata has one
}
"""Of Spark, so that it writes parquet as the formats of tables define it."""


def write(rows: DataFrame, folder: str, partitioned_by: Mapping[str, str | None]) -> None:
    """Write rows as parquet files into a folder that is not there yet.

    Args:
        folder: its URI.
        partitioned_by: names of the folders that part the rows, each with the SQL expression of its value; None for the
            column of that name, which the files then leave out.
    """
    for name, value in partitioned_by.items():
        if value is not None:
            rows = rows.withColumn(name, F.expr(value))
    with task_errors.in_one_sentence(), _settings(rows.sparkSession):
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
