"""Queries from files of JSON rows into a sink of foreachBatch, over many runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from oncelog.batches.attempt import BatchReport
from oncelog.spark.kit.sink import ForeachBatchSink
from tests.support.spark.queries import run_available


class JsonQuery:
    """A query, each batch of which is one file.

    Attributes:
        folder: of its files.
        schema: of the rows.
        reports: of the batches of the last run.
    """

    schema = "id int, value string"

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

    def source(self, schema: str | None = None) -> DataFrame:
        reader = self.spark.readStream.schema(schema or self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._in))

    def run_into(self, sink: ForeachBatchSink[Any, Any], df: DataFrame | None = None) -> None:
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
