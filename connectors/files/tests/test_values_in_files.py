"""Values at the edges of Spark's types: a reader of the files sees them as they are, or they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from folder_worlds import FilesWorld, is_visible
from oncelog.testing.extreme_values import UNSPEAKABLE, ExtremeValue
from oncelog.testing.value_contract import ValueContract, ValueWorld
from oncelog_files.batch_sink import FilesTarget

pytestmark = pytest.mark.sampled("files")

NUMBERS = {"date": "unix_date({})", "timestamp": "unix_micros({})", "struct<a:date>": "struct(unix_date(({}).a) AS a)"}
"""What stands for a time that Python does not hold."""


class FilesValueWorld(ValueWorld):
    """A folder of Parquet files, and a reader that shares no code with Spark."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        super().__init__(folder, spark)
        self.files = FilesWorld(folder, spark)

    def create(self, column: str, type_: str) -> bool:
        return True

    def target(self) -> FilesTarget:
        return self.files.target()

    def rows_job(self, rows: DataFrame) -> DataFrame:
        return rows

    def read(self, column: str) -> list[Any]:
        out = self.files.out
        found = [pq.read_table(file) for file in out.rglob("*.parquet") if is_visible(file, out)]
        return [value for table in found for value in values_of(table.column(column).combine_chunks())]

    def expected(self, value: ExtremeValue) -> Any:
        if value.python is UNSPEAKABLE and value.type in NUMBERS:
            row = self.spark.sql(f"SELECT {NUMBERS[value.type].format(value.sql)} AS value").collect()[0]
            return row.asDict(recursive=True)["value"]
        return value.python

    def close(self) -> None:
        self.files.close()


def values_of(array: pa.Array) -> list[Any]:
    """The values of a column; numbers for times that Python does not hold."""
    try:
        return [dict(one) if pa.types.is_map(array.type) and one is not None else one for one in array.to_pylist()]
    except (OverflowError, ValueError):
        if pa.types.is_struct(array.type):
            return [{array.type[0].name: value} for value in values_of(array.field(0))]
        return list(array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).to_pylist())


class TestValuesInFiles(ValueContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[ValueWorld]:
        found = FilesValueWorld(tmp_path, spark)
        yield found
        assert found.files.left() == []
        found.close()
