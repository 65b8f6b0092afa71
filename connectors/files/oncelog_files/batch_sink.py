"""The files sink for ``writeStream.foreachBatch(oncelog_files.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.receipts_sink import FolderSink
from oncelog_files import jobs
from oncelog_files import options as sink_options
from oncelog_files.options import SinkOptions
from oncelog_files.target import FilesTarget


class FilesSink(FolderSink[SinkOptions, FilesTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_files.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def _columns(self, df: DataFrame) -> DataFrame:
        jobs.check_columns(df, self.options.partition_by)
        self._look_around(df.sparkSession)
        return df

    @property
    def _folder(self) -> str:
        return self.options.path

    def _opened(self, known: FilesTarget | None, ledger: ZnodeStore | None) -> FilesTarget:
        return known or FilesTarget(ledger or open_ledger(self._ledger_place()), self.options)
