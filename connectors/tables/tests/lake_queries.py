"""Queries into tables, from files of JSON rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from oncelog.spark.kit.sink import ForeachBatchSink
from tests.support.spark.json_queries import JsonQuery

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
