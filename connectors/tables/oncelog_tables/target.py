"""Tables as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.committables import ReceiptsAttempt, ReceiptsRound
from oncelog.batches.ledger import LedgerKind
from oncelog.ports import Clock, ZnodeStore
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_tables import decisions
from oncelog_tables.place import BatchPlace
from oncelog_tables.ports import Job, Tables


class TableTarget:
    """A table that batches are written to; see `Target`.

    Args:
        store: where the ledgers are kept.
        ledgers: of the format.
        tables: of the format.
        name: of the table.
        key_columns: by which rows are replaced; empty if they are only added.
    """

    clock: Clock = SYSTEM_CLOCK

    def __init__(
        self,
        store: ZnodeStore,
        ledgers: LedgerKind[ReceiptsRound],
        tables: Tables,
        name: str,
        key_columns: Sequence[str] = (),
    ) -> None:
        self.store = store
        self.ledgers = ledgers
        self.tables = tables
        self.name = name
        self.key_columns = key_columns

    def attempt(self, batch: Batch[Job]) -> TableAttempt:
        return TableAttempt(self, batch)


class TableAttempt(ReceiptsAttempt[Job]):
    """One round on its way to a table; see `Attempt`."""

    def __init__(self, target: TableTarget, batch: Batch[Job]) -> None:
        asked = batch.request
        app_id = f"{asked.prefix}/{asked.query_id}"
        self._table = BatchPlace(target.tables, target.name, target.key_columns, app_id, asked.batch_id, batch.job)
        super().__init__(target.store, target.ledgers, self._table, batch)

    def write(self, report: BatchReport) -> None:
        super().write(report)
        if self._written.names:
            report.participants = decisions.of_names(self._written.names).files

    def prepare(self, report: BatchReport) -> None:
        self._table.prepare(self._written.names)

    def has_history(self) -> bool:
        return self._table.has_batches()
