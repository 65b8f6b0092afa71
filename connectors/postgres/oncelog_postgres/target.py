"""Tables of PostgreSQL as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from oncelog.errors import BatchRefusedError
from oncelog.ports import Clock, ZnodeStore
from oncelog.spark.kit.receipts import ReceiptsAttempt
from oncelog.spark.kit.target import Batch, BatchReport
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_postgres.jobs import Job
from oncelog_postgres.ledgers import POSTGRES_LEDGERS
from oncelog_postgres.options import SinkOptions
from oncelog_postgres.place import BatchPlace
from oncelog_postgres.tables import has_batches


class PostgresTarget:
    """A table that batches are written to; see `Target`.

    Args:
        store: where the ledgers are kept.
        options: of the sink.
    """

    clock: Clock = SYSTEM_CLOCK

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        self.store = store
        self.options = options

    def attempt(self, batch: Batch[Job]) -> PostgresAttempt:
        return PostgresAttempt(self, batch)


class PostgresAttempt(ReceiptsAttempt[Job]):
    """One round on its way to a table; see `Attempt`. It has one connection, until it is over."""

    def __init__(self, target: PostgresTarget, batch: Batch[Job]) -> None:
        self._rows = BatchPlace(target.options, batch.request.prefix)
        super().__init__(target.store, POSTGRES_LEDGERS, self._rows, batch)

    def begin(self) -> bool:
        try:
            self._check_ledger()
            return super().begin()
        except BaseException:
            self._rows.close()
            raise

    def prepare(self, report: BatchReport) -> None:
        self._rows.prepare(self._written.names)

    def commit(self, report: BatchReport) -> None:
        try:
            super().commit(report)
        except BaseException:
            self._rows.close()
            raise

    def abort(self) -> None:
        try:
            super().abort()
        finally:
            self._rows.close()

    def finish(self) -> None:
        self._rows.close()
        super().finish()

    def _check_ledger(self) -> None:
        """Refuse a ledger that lacks the history of this query: its batch may have been decided in another one."""
        prefix, batch_id = self._batch.request.prefix, self._batch.request.batch_id
        if batch_id == 0 or POSTGRES_LEDGERS.read(self._steps.store, prefix) is not None:
            return
        if has_batches(self._rows.database, prefix):
            raise BatchRefusedError(
                "the database has batches of this prefix, and the ledger does not know it: the history of this query "
                "is in another ledger. Name its place with znodes; if it is lost, another transactionalIdPrefix begins "
                "a new history, which may write this batch twice",
                prefix=prefix,
                batch_id=batch_id,
            )
