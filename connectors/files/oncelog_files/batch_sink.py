"""The files sink for ``writeStream.foreachBatch(oncelog_files.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.batches.committables import CommitterTarget
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import FolderSink
from oncelog_files import jobs
from oncelog_files import options as sink_options
from oncelog_files.committer import FolderCommitter
from oncelog_files.ledgers import FILES_LEDGERS
from oncelog_files.options import SinkOptions


class FilesTarget(CommitterTarget[DataFrame]):
    """A folder that batches are written to; see `Target`."""

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        own: set[str] = set()
        super().__init__(store, FILES_LEDGERS, lambda batch: FolderCommitter(options, batch, own))
        self.options = options


class FilesSink(FolderSink[SinkOptions]):
    """Writes each micro-batch exactly once. Create it with `oncelog_files.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    @property
    def folder(self) -> str:
        return self.options.path

    def columns(self, df: DataFrame) -> DataFrame:
        jobs.check_columns(df, self.options.partition_by)
        return super().columns(df)

    def new_target(self, store: ZnodeStore) -> FilesTarget:
        return FilesTarget(store, self.options)
