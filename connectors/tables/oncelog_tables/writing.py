"""Spark's parquet writer, set up so that it writes what the formats of tables define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from oncelog.spark import task_errors
from oncelog.spark.kit.session_settings import changed
from oncelog.spark.kit.spark_files import WRITER
from oncelog_tables import nested_ids, partitions
from oncelog_tables.field_ids import FieldIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncelog_tables.partitions import Folders

SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no statistics
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Of Spark, so that it writes parquet as the formats of tables define it."""

FIELD_IDS: Final = "spark.sql.parquet.fieldId.write.enabled"
"""The setting by which Spark writes the field ids that the metadata of columns has."""


def write(rows: DataFrame, folder: str, partitioned_by: Mapping[str, Folders], ids: Sequence[FieldIds] = ()) -> None:
    """Write rows as parquet files into a folder that is not there yet.

    Args:
        folder: its URI.
        partitioned_by: the folders that part the rows, by what their names begin with.
        ids: of the columns that the files have, in their order; none if files have no field ids. The columns' metadata
            has them too.
    """
    for name, folders in partitioned_by.items():
        if folders.value is not None:
            rows = rows.withColumn(name, F.expr(folders.value))
    labels = {name: folders.label for name, folders in partitioned_by.items()}
    rows = partitions.checked(rows, labels, partitions.SPARK_ESCAPES, folder)
    nested = [one for column in ids for one in column.nested]
    spark = rows.sparkSession
    settings = {**SETTINGS, FIELD_IDS: str(bool(ids)).lower()}
    with task_errors.in_one_sentence(), changed(spark, settings), nested_ids.loaded(spark, nested):
        writer = rows.write.options(**WRITER).format("parquet")
        if nested:
            writer = writer.format(nested_ids.FORMAT).option(nested_ids.OPTION, ",".join(map(str, nested)))
        (writer.partitionBy(*partitioned_by) if partitioned_by else writer).save(folder)
