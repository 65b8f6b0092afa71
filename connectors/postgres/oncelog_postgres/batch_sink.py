"""The PostgreSQL sink for ``writeStream.foreachBatch(oncelog_postgres.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.receipts_sink import ReceiptsSink
from oncelog_postgres import options as sink_options
from oncelog_postgres.jobs import SparkJob
from oncelog_postgres.options import SinkOptions
from oncelog_postgres.target import PostgresTarget


class PostgresSink(ReceiptsSink[SinkOptions, PostgresTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_postgres.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def _columns(self, df: DataFrame) -> DataFrame:
        return df  # the target compares them with the table's, before the job

    def _opened(self, known: PostgresTarget | None, ledger: ZnodeStore | None) -> PostgresTarget:
        return known or PostgresTarget(ledger or open_ledger(self.options.ledger_place), self.options)

    def _job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
