"""The files sink for ``writeStream.foreachBatch(oncelog_files.sink(...))``, with any plan and source."""

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
from oncelog_files import jobs
from oncelog_files import options as sink_options
from oncelog_files.options import SinkOptions
from oncelog_files.target import FilesTarget


class FilesSink(ReceiptsSink[SinkOptions, FilesTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_files.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))
        self._is_local = False

    def _columns(self, df: DataFrame) -> DataFrame:
        jobs.check_columns(df, self.options.partition_by)
        self._look_around(df.sparkSession)
        return df

    def _look_around(self, spark: SparkSession) -> None:
        if self._target is None:
            self._is_local = SparkFiles(spark, self.options.path).is_local

    def _opened(self, known: FilesTarget | None, ledger: ZnodeStore | None) -> FilesTarget:
        return known or FilesTarget(ledger or open_ledger(self._ledger_place()), self.options)

    def _ledger_place(self) -> str:
        options = self.options
        return options.znodes or ledger_inside(options.path, is_local=self._is_local)
