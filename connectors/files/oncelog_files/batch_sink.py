"""The files sink for ``writeStream.foreachBatch(oncelog_files.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.signatures import checked
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.kit.spark_files import SparkFiles
from oncelog_files import jobs, ledgers
from oncelog_files import options as sink_options
from oncelog_files.options import SinkOptions
from oncelog_files.target import FilesTarget


class FilesSink(ForeachBatchSink[SinkOptions, FilesTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_files.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def _columns(self, df: DataFrame) -> DataFrame:
        jobs.check_columns(df, self.options.partition_by)
        is_first = self._target is None
        if is_first and self.options.is_inside and not SparkFiles(df.sparkSession, self.options.path).is_local:
            raise sink_options.needs_znodes(self.options.path)  # a path without a scheme leads to Spark's own default
        return df

    def _opened(self, known: FilesTarget | None) -> FilesTarget:
        return known or FilesTarget(ledgers.open_store(self.options.znodes), self.options)
