"""The driver's connection during one batch, and the transaction on it that waits for the decision.

The sinks of one `together` that write into the same database share a session, and so a transaction. In transactions of
their own, each would wait until the decision for rows that another one has written, and would not see the rows that
its foreign keys refer to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from oncelog.znodes.postgres.address import PostgresAddress
from oncelog_postgres.database import Database, conninfo
from oncelog_postgres.errors import DatabaseUnavailableError

WAITS_FOR_OTHERS_MS: Final = 10_000
"""How long a sink waits for locked rows if another sink of its `together` has a transaction of its own: that may be the
one that locks them, and it ends only after the decision."""


class Session:
    """A connection that is opened when it is first needed, and closed when nobody uses it any more.

    Args:
        address: of the database.
        others: the sessions of the same batch, by where they lead to.
    """

    def __init__(self, address: PostgresAddress, others: dict[str, Session]) -> None:
        self._address = address
        self._others = others
        self._database: Database | None = None
        self._users: set[object] = set()
        self._waiting: set[str] = set()
        self._committed: set[str] = set()

    def database(self, user: object) -> Database:
        """The connection.

        Args:
            user: who needs it, until it calls `leave`.
        """
        self._users.add(user)
        if self._database is None:
            self._database = Database(self._address)
        return self._database

    def leave(self, user: object) -> None:
        """Close the connection, unless others use it; the server undoes what is not committed."""
        self._users.discard(user)
        if not self._users:
            self._close()

    @property
    def is_waiting(self) -> bool:
        """Whether a transaction waits for the decision."""
        return bool(self._waiting)

    def is_waiting_for(self, attempt: str) -> bool:
        """Whether that transaction has the rows of an attempt."""
        return attempt in self._waiting

    @contextmanager
    def adding(self, user: object, attempt: str) -> Iterator[None]:
        """Add what the block writes to the transaction that waits for the decision. If it fails, undo all of it."""
        database = self.database(user)
        try:
            if not self._waiting:
                is_alone = len(self._others) < 2
                database.begin(**({} if is_alone else {"lock_timeout": WAITS_FOR_OTHERS_MS}))
            yield
        except BaseException:
            self.rollback()
            raise
        self._waiting.add(attempt)

    def commit(self, attempt: str) -> bool:
        """Commit the rows of an attempt, unless they are. False: the transaction that had them is lost."""
        if attempt in self._waiting:
            waiting, self._waiting = self._waiting, set()
            try:
                if self._database is not None and self._database.commit():
                    self._committed |= waiting
            except DatabaseUnavailableError:  # it may have happened: the table `batches` says whether
                self._close()
        return attempt in self._committed

    def rollback(self) -> None:
        """Undo the transaction."""
        self._waiting = set()
        if self._database is not None:
            self._database.rollback()

    def _close(self) -> None:
        opened, self._database, self._waiting = self._database, None, set()
        if opened is not None:
            opened.close()


def session(address: PostgresAddress, shared: dict[Any, Any] | None) -> Session:
    """The session of one sink.

    Args:
        address: of its database.
        shared: what the sinks of its `together` share; None if it writes alone.
    """
    sessions: dict[str, Session] = {} if shared is None else shared.setdefault(Session, {})
    return sessions.setdefault(conninfo(address), Session(address, sessions))
