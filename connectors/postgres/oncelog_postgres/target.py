"""Tables of PostgreSQL as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.committables import ReceiptsAttempt, ReceiptsRound
from oncelog.ports import Clock, ZnodeStore
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_postgres import marks
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

    Attributes:
        marked: prefix and id of the queries that this process has marked in the database.
    """

    clock: Clock = SYSTEM_CLOCK
    ledgers = POSTGRES_LEDGERS

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        self.store = store
        self.options = options
        self.marked: set[tuple[str, str]] = set()

    def attempt(self, batch: Batch[Job]) -> PostgresAttempt:
        return PostgresAttempt(self, batch)


class PostgresAttempt(ReceiptsAttempt[Job]):
    """One round on its way to a table; see `Attempt`. It has one connection, until it is over."""

    def __init__(self, target: PostgresTarget, batch: Batch[Job]) -> None:
        self._target = target
        self._rows = BatchPlace(target.options, batch.request.prefix, batch.shared)
        super().__init__(target.store, target.ledgers, self._rows, batch)

    def prepare(self, report: BatchReport) -> None:
        self._rows.prepare(self._written.names)

    def staged(self) -> Sequence[str]:
        return self._rows.attempts()

    def complete(self) -> tuple[list[ReceiptsRound], int]:
        try:
            return super().complete()
        finally:
            self.close()

    def close(self) -> None:
        self._rows.close()

    def has_history(self) -> bool:
        asked, database, schema = self._batch.request, self._rows.database, self._target.options.address.schema
        has_prefix = asked.batch_id > 0 and has_batches(database, schema, asked.prefix)
        return has_prefix or marks.is_left(database, asked.prefix, asked.query_id)

    def mark_history(self) -> None:
        asked, target = self._batch.request, self._target
        if (asked.prefix, asked.query_id) not in target.marked:
            marks.leave(target.options.address, asked.prefix, asked.query_id)
            target.marked.add((asked.prefix, asked.query_id))
