"""Queries into tables, from files of JSON rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.kit.target import BatchReport
from tests.support.spark.queries import run_available

ROWS_OF_ALL_TYPES = """
SELECT true flag, 1Y tiny, 2 long, cast('NaN' AS float) double, 0.1234bd * 1 price, repeat('é', 40) text,
 x'00ff' bytes, date'2026-01-02' day, timestamp'2026-01-02 03:04:05.678901Z' at,
 named_struct('x', 1, 'names', array('a', null)) inner, map('k', 1) by_name
UNION ALL SELECT null, null, 5, 1.5, 12345678901234.5678bd, 'a', null, date'0001-01-01',
 timestamp'2026-01-03 00:00:00Z', null, null
"""


class Query:
    """A query from files of JSON rows into a table, over many runs.

    Attributes:
        folder: of its files.
        reports: of the batches of the last run.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.reports: list[BatchReport] = []
        self._files = 0
        self._in = folder / "in"
        self._in.mkdir()

    def add(self, *rows: dict[str, Any]) -> None:
        """One more file, which is one more batch."""
        hidden = self._in / f".{self._files}"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        hidden.rename(self._in / f"{self._files:04d}.json")
        self._files += 1

    def source(self, schema: str = "id int, value string") -> DataFrame:
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self._in))

    def write_rows(self, sink: ForeachBatchSink[Any, Any], rows: DataFrame) -> None:
        """One batch with these rows, in one file."""
        self.add({"batch": 1})
        self.run(sink, self.source("batch int").join(rows).select(*rows.columns).coalesce(1))

    def run(self, sink: ForeachBatchSink[Any, Any], df: DataFrame | None = None) -> None:
        """Write what there is; raises what the sink raised: to Spark that is text within an error of its own."""
        self.reports = []
        problems: list[Exception] = []

        def write(batch: DataFrame, batch_id: int) -> None:
            try:
                sink(batch, batch_id)
            except Exception as problem:
                problems.append(problem)
                raise
            assert sink.last_report is not None
            self.reports.append(sink.last_report)

        try:
            run_available((df or self.source()).writeStream.foreachBatch(write), self.checkpoint)
        except StreamingQueryException:
            raise problems[0] from None
