"""Values at the edges of their types in tables of PostgreSQL; see `ValueContract`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog import metadata
from oncelog.testing.extreme_values import ExtremeValue
from oncelog.testing.value_contract import ValueContract, ValueWorld
from oncelog_postgres import options as sink_options
from oncelog_postgres.batch_sink import PostgresTarget
from oncelog_postgres.jobs import SparkJob
from tests.support.servers.postgres import PostgresServer
from worlds import left_staging, new_table

TYPES = {
    "tinyint": "smallint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "array<int>": "int[]",
    "array<string>": "text[]",
}
"""Of columns, by Spark's type, where SQL does not call them the same. Other nested types go into jsonb."""

AS_TEXT = {
    "date of year 10000": "10000-01-01",
    "date of year 0": "0001-12-31 BC",
    "timestamp of year 10000": "10000-01-01 00:00:00+00",
    "timestamp of year 0": "0001-12-31 23:59:59.999999+00 BC",
    "timestamp that is the greatest": "294247-01-10 04:00:54.775807+00",
    "struct with a date of year 10000": {"a": "+10000-01-01"},
}
"""What PostgreSQL shows of values that Python cannot hold."""


class PostgresValues(ValueWorld):
    """A table with a column of any type."""

    def __init__(self, folder: Path, spark: SparkSession, server: PostgresServer, options: dict[str, Any]) -> None:
        super().__init__(folder, spark)
        self.server = server
        self.url = server.url()
        self.options = options
        self.prefix = f"values.{self.url.partition('schema=')[2]}"
        self.store = metadata.open_metadata(str(folder / "ledger"))
        self.table = ""

    def create(self, column: str, type_: str) -> bool:
        if len(column.encode()) > 63:
            return False
        quoted = column.replace('"', '""')
        default = "jsonb" if "<" in type_ else type_
        self.table = new_table(self.server, f'"{quoted}" {TYPES.get(type_, default)}')
        return True

    def target(self) -> PostgresTarget:
        given = {"url": self.url, "table": self.table, **self.options}
        return PostgresTarget(self.store, sink_options.parse(given))

    def rows_job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)

    def read(self, column: str) -> list[Any]:
        quoted = column.replace('"', '""')
        try:
            return [value for (value,) in self.server.ask(f'SELECT "{quoted}" FROM {self.table}')]
        except psycopg.DataError:  # Python has no such date
            return [value for (value,) in self.server.ask(f'SELECT "{quoted}"::text FROM {self.table}')]

    def expected(self, value: ExtremeValue) -> Any:
        return AS_TEXT.get(value.name, value.python)

    def close(self) -> None:
        assert left_staging(self.server, self.url) == []
        self.store.close()


class TestValuesInTables(ValueContract):
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, postgres: PostgresServer) -> Iterator[PostgresValues]:
        found = PostgresValues(tmp_path, spark, postgres, self.options)
        yield found
        found.close()
