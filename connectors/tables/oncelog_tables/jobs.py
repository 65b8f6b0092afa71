"""What writes the rows of a batch: the plan of a batch in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from oncelog.spark.kit import counting, row_values
from oncelog_tables import columns, partitions, writing
from oncelog_tables.columns import WrittenColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from oncelog_tables.partitions import Folders


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

    def run(self, planned: Sequence[WrittenColumn], folder: str, partitioned_by: Mapping[str, Folders]) -> int:
        """Run the plan once; Spark's parquet writer writes the rows."""
        required = [column.name for column in planned if column.is_checked]
        rows = row_values.checked(columns.select(self._rows, planned), required=required)
        named = {column.name: column.name for column in planned if column.names_folder}
        rows = partitions.checked(rows, named, partitions.DELTA_RS_ESCAPES, folder)
        observation = Observation()
        ids = [column.ids for column in planned if column.ids]
        writing.write(rows.observe(observation, F.count(F.lit(1)).alias("rows")), folder, partitioned_by, ids)
        return int(counting.observed(observation)["rows"])
