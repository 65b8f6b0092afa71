"""The search sink for ``writeStream.foreachBatch(oncelog_search.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.receipts_sink import FolderSink
from oncelog_search import options as sink_options
from oncelog_search.jobs import SparkJob
from oncelog_search.options import SinkOptions
from oncelog_search.target import SearchTarget


class SearchSink(FolderSink[SinkOptions, SearchTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_search.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def _columns(self, df: DataFrame) -> DataFrame:
        self._look_around(df.sparkSession)
        return df  # the target compares them with the fields of the index, before the job

    @property
    def _folder(self) -> str:
        return self.options.staging

    def _opened(self, known: SearchTarget | None, ledger: ZnodeStore | None) -> SearchTarget:
        return known or SearchTarget(ledger or open_ledger(self._ledger_place()), self.options)

    def _job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
