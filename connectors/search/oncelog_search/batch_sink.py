"""The search sink for ``writeStream.foreachBatch(oncelog_search.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.folders import ledger_inside
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.receipts_sink import ReceiptsSink
from oncelog.spark.kit.spark_files import SparkFiles
from oncelog_search import options as sink_options
from oncelog_search.jobs import SparkJob
from oncelog_search.options import SinkOptions
from oncelog_search.target import SearchTarget


class SearchSink(ReceiptsSink[SinkOptions, SearchTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_search.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))
        self._is_local = False

    def _columns(self, df: DataFrame) -> DataFrame:
        self._look_around(df.sparkSession)
        return df  # the target compares them with the fields of the index, before the job

    def _look_around(self, spark: SparkSession) -> None:
        if self._target is None:
            self._is_local = SparkFiles(spark, self.options.staging).is_local

    def _opened(self, known: SearchTarget | None, ledger: ZnodeStore | None) -> SearchTarget:
        return known or SearchTarget(ledger or open_ledger(self._ledger_place()), self.options)

    def _ledger_place(self) -> str:
        options = self.options
        return options.znodes or ledger_inside(options.staging, is_local=self._is_local)

    def _job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
