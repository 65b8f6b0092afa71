"""The sinks for ``writeStream.foreachBatch(oncelog_tables.delta(...))`` and the like, with any plan and source."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.receipts_sink import ReceiptsSink
from oncelog_tables import options as sink_options
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS, ICEBERG_LEDGERS
from oncelog_tables.options import DeltaOptions, IcebergOptions
from oncelog_tables.target import TableTarget

O = TypeVar("O", DeltaOptions, IcebergOptions)  # noqa: E741 - options


class TableSink(ReceiptsSink[O, TableTarget]):
    """Writes each micro-batch exactly once; it can be pickled."""

    def _columns(self, df: DataFrame) -> DataFrame:
        return df  # the target compares them with the table's, before the job

    def _opened(self, known: TableTarget | None, ledger: ZnodeStore | None) -> TableTarget:
        return known or self._new_target(ledger or open_ledger(self.options.znodes))

    @abstractmethod
    def _new_target(self, store: ZnodeStore) -> TableTarget:
        """The target that the options name, with its ledger in a store."""

    def _job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)


class DeltaSink(TableSink[DeltaOptions]):
    """Into a Delta table. Create it with `oncelog_tables.delta`."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse_delta(options))

    def _new_target(self, store: ZnodeStore) -> TableTarget:
        from oncelog_tables.delta_tables import DeltaTables

        tables = DeltaTables(self.options.storage)
        return TableTarget(store, DELTA_LEDGERS, tables, self.options.path, self.options.key_columns)


class IcebergSink(TableSink[IcebergOptions]):
    """Into an Iceberg table. Create it with `oncelog_tables.iceberg`."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse_iceberg(options))

    def _new_target(self, store: ZnodeStore) -> TableTarget:
        from oncelog_tables.iceberg_tables import IcebergTables

        tables = IcebergTables(self.options.catalog, self.options.properties)
        return TableTarget(store, ICEBERG_LEDGERS, tables, self.options.table, self.options.key_columns)
