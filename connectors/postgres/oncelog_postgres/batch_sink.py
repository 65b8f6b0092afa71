"""The PostgreSQL sink for ``writeStream.foreachBatch(oncelog_postgres.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.batches.committables import CommitterTarget
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import CommitterSink
from oncelog_postgres import options as sink_options
from oncelog_postgres.committer import PostgresCommitter
from oncelog_postgres.jobs import Job, SparkJob
from oncelog_postgres.ledgers import POSTGRES_LEDGERS
from oncelog_postgres.options import SinkOptions


class PostgresTarget(CommitterTarget[Job]):
    """A table that batches are written to; see `Target`."""

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        marked: set[tuple[str, str]] = set()
        super().__init__(store, POSTGRES_LEDGERS, lambda batch: PostgresCommitter(options, batch, marked))


class PostgresSink(CommitterSink[SinkOptions]):
    """Writes each micro-batch exactly once. Create it with `oncelog_postgres.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def ledger_place(self) -> str:
        return self.options.ledger_place

    def new_target(self, store: ZnodeStore) -> PostgresTarget:
        return PostgresTarget(store, self.options)

    def job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
