"""Queries into tables, from files of JSON rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import oncelog_tables
from lakes import catalog_in, close_sinks
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog_tables.batch_sink import IcebergSink
from tests.support.spark.json_queries import JsonQuery

TABLE = "lake.landed"

ROWS_OF_ALL_TYPES = """
SELECT true flag, 1Y tiny, 2 long, cast('NaN' AS float) double, 0.1234bd * 1 price, repeat('é', 40) text,
 x'00ff' bytes, date'2026-01-02' day, timestamp'2026-01-02 03:04:05.678901Z' at,
 named_struct('x', 1, 'names', array('a', null)) inner, map('k', 1) by_name
UNION ALL SELECT null, null, 5, 1.5, 12345678901234.5678bd, 'a', null, date'0001-01-01',
 timestamp'2026-01-03 00:00:00Z', null, null
"""


class Query(JsonQuery):
    """A query into a table."""

    def write_rows(self, sink: ForeachBatchSink[Any, Any], rows: DataFrame) -> None:
        """One batch with these rows, in one file."""
        self.add({"batch": 1})
        self.run_into(sink, self.source("batch int").join(rows).select(*rows.columns).coalesce(1))


class IcebergQuery(Query):
    """A query into a table of a catalog of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self.catalog = catalog_in(folder)
        self._sinks: list[IcebergSink] = []

    def sink(self, **more: str) -> IcebergSink:
        properties = {f"catalog.{name}": value for name, value in self.catalog.items()} | more
        znodes = str(self.folder / "ledger")
        self._sinks.append(oncelog_tables.iceberg(table=TABLE, catalog="lake", znodes=znodes, **properties))
        return self._sinks[-1]

    @property
    def metadata(self) -> str:
        """Where the newest metadata of the table is."""
        folder = self.folder / "warehouse" / "lake" / "landed" / "metadata"
        return str(max(folder.glob("*.metadata.json"), key=lambda file: file.name))

    def close(self) -> None:
        close_sinks(self._sinks)
        close_ledgers()
