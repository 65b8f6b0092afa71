"""The sinks for ``writeStream.foreachBatch(oncelog_tables.delta(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.signatures import checked
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog_tables import ledgers
from oncelog_tables import options as sink_options
from oncelog_tables.delta_tables import DeltaTables
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS
from oncelog_tables.options import DeltaOptions
from oncelog_tables.target import TableTarget


class DeltaSink(ForeachBatchSink[DeltaOptions, TableTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_tables.delta`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse_delta(options))

    def _columns(self, df: DataFrame) -> DataFrame:
        return df  # the target compares them with the table's, before the job

    def _opened(self, known: TableTarget | None) -> TableTarget:
        if known is not None:
            return known
        store, tables = ledgers.open_store(self.options.znodes), DeltaTables(self.options.storage)
        return TableTarget(store, DELTA_LEDGERS, tables, self.options.path)

    def _job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
