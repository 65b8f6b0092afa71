"""The sinks for ``writeStream.foreachBatch(oncelog_tables.delta(...))`` and the like, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from oncelog.batches.committables import CommittableRound, CommitterTarget
from oncelog.batches.ledger import LedgerKind
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import CommitterSink
from oncelog_tables import options as sink_options
from oncelog_tables.committer import TableCommitter
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS, ICEBERG_LEDGERS
from oncelog_tables.options import DeltaOptions, IcebergOptions
from oncelog_tables.ports import Job, Tables

O = TypeVar("O", DeltaOptions, IcebergOptions)  # noqa: E741 - options


class TableTarget(CommitterTarget[Job]):
    """A table that batches are written to; see `Target` and `TableCommitter`."""

    def __init__(
        self,
        store: ZnodeStore,
        ledgers: LedgerKind[CommittableRound],
        tables: Tables,
        name: str,
        key_columns: Sequence[str] = (),
    ) -> None:
        super().__init__(store, ledgers, lambda batch: TableCommitter(tables, name, key_columns, batch))
        self.tables = tables


class TableSink(CommitterSink[O]):
    """Writes each micro-batch exactly once; it can be pickled."""

    def job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)


class DeltaSink(TableSink[DeltaOptions]):
    """Into a Delta table. Create it with `oncelog_tables.delta`."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse_delta(options))

    def new_target(self, store: ZnodeStore) -> TableTarget:
        from oncelog_tables.delta_tables import DeltaTables

        tables = DeltaTables(self.options.storage)
        return TableTarget(store, DELTA_LEDGERS, tables, self.options.path, self.options.key_columns)


class IcebergSink(TableSink[IcebergOptions]):
    """Into an Iceberg table. Create it with `oncelog_tables.iceberg`."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse_iceberg(options))

    def new_target(self, store: ZnodeStore) -> TableTarget:
        from oncelog_tables.iceberg_tables import IcebergTables

        tables = IcebergTables(self.options.catalog, self.options.properties)
        return TableTarget(store, ICEBERG_LEDGERS, tables, self.options.table, self.options.key_columns)
