"""The driver's connection to the database. No other module may use psycopg.

Transactions are READ COMMITTED. That is enough, since nothing that a batch's transaction reads can change under it: the
rows of the winning tasks were committed before it began, and nobody changes them. Whether the batch is there already is
said by the unique key of its row in `batches`, which waits for another transaction with the same key, at any level. A
database whose default is stricter would only add errors that ask for another try.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, LiteralString

from oncelog.errors import ensure
from oncelog.extras import extras
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.connection import Impatient
from oncelog_postgres.failures import refused, translated
from oncelog_postgres.settings import BEGIN, pinned
from oncelog_postgres.stalls import no_answer, stands_still

with extras("postgres", part="oncelog_postgres"):
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import TransactionStatus

Row = tuple[Any, ...]
Sql = sql.SQL | sql.Composed

_ALIVE: Final = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A server that is gone is noticed within a minute (seconds, seconds, probes): a statement may take as long as it does.
"""

_COMMIT: Final = sql.SQL("COMMIT")


def text(template: LiteralString, **parts: Any) -> Sql:
    """A statement, or part of one: what goes into the braces of a template is other SQL, or else a value.

    Values are part of the statement: with separate values, psycopg would read a % in a name as a placeholder.
    """
    return sql.SQL(template).format(**parts)


def name(*parts: str) -> Sql:
    """A name of one part or several, quoted."""
    return sql.Composed([sql.Identifier(*parts)])


def listed(parts: Iterable[Sql], between: LiteralString = ", ") -> Sql:
    """Parts with something in between."""
    return sql.SQL(between).join(parts)


def type_name(found: str) -> Sql:
    """The name of a type as `format_type` of the server shows it, quoted where that is needed."""
    return sql.SQL(found)


def conninfo(address: PostgresAddress) -> str:
    """What libpq is told, without a password: that comes from the environment, or a file."""
    parameters = {**_ALIVE, **address.parameters(address.timeout_ms / 1000)}
    return make_conninfo("", **{key: str(value) for key, value in parameters.items()})


class _Watchful(Impatient):
    """A connection whose waits end if the server stops responding.

    Attributes:
        address: of the server.
    """

    address: PostgresAddress

    def gives_up(self) -> bool:
        if stands_still(self.address):
            return True
        self.wait_on()
        return False

    def wait_on(self) -> None:
        """Look at the server again when another time-out is over."""
        self.deadline_s = time.monotonic() + self.address.timeout_ms / 1000


class Database:
    """A connection for one thread. Only the transactions that are begun span several statements.

    Raises:
        DatabaseUnavailableError: no server answered, or none of them takes writes now.
        DatabaseAccessError: they deny this process access.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        try:
            self._connection = _Watchful.connect(
                conninfo(address), autocommit=True, cursor_factory=psycopg.ClientCursor, prepare_threshold=None
            )
        except psycopg.Error as problem:
            raise refused(str(problem), database=str(address)) from None
        self._connection.address = address

    def rows(self, statement: Sql, **about: Any) -> list[Row]:
        """Run a statement, and return its rows.

        Args:
            statement: from `text`.
            about: fields for an error.

        Raises:
            OncelogError: see failures.py; the transaction, if there is one, is over.
        """
        with self._translated(about):
            return self._connection.execute(statement).fetchall()

    def run(self, statement: Sql, **about: Any) -> int:
        """The same for one without rows; returns how many it wrote."""
        with self._translated(about):
            return self._connection.execute(statement).rowcount

    @contextmanager
    def transaction(self, **more_ms: int) -> Iterator[None]:
        """Commit what the block does; undo it if it raises. For `more_ms` see `settings.pinned`."""
        self.begin(**more_ms)
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        ensure(self.commit(), "a transaction whose statements succeeded commits")

    def begin(self, **more_ms: int) -> None:
        """Begin a transaction that ends with `commit` or `rollback`. For `more_ms` see `settings.pinned`."""
        status = self._connection.info.transaction_status
        ensure(status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR), "transactions are not nested")
        self.run(sql.SQL(f"{BEGIN}; {pinned(**more_ms)}"))

    def commit(self) -> bool:
        """Commit the transaction. False: a statement in it had failed, so it was undone, which is no error to SQL."""
        with self._translated({}):
            return self._connection.execute(_COMMIT).statusmessage == "COMMIT"

    def rollback(self) -> None:
        """Undo the transaction, if there is one. A connection that is lost has nothing left to undo."""
        try:
            if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                self._connection.rollback()
        except psycopg.Error:
            self._connection.close()

    def close(self) -> None:
        """Close the connection; the server undoes what is not committed."""
        self._connection.close()

    @contextmanager
    def _translated(self, about: dict[str, Any]) -> Iterator[None]:
        self._connection.wait_on()
        try:
            yield
        except psycopg.Error as problem:
            if self._connection.is_late:
                self._connection.close()
                raise no_answer(self.address) from None
            sqlstate = None if self._connection.closed else problem.sqlstate
            diagnosis = problem.diag
            named = {"column": diagnosis.column_name, "constraint": diagnosis.constraint_name}
            if diagnosis.sqlstate in _TELLS_THE_KEY:
                named["detail"] = diagnosis.message_detail
            shown = {key: value for key, value in named.items() if value is not None}
            raise translated(
                sqlstate, diagnosis.message_primary or " ".join(str(problem).split()), **about, **shown
            ) from None
        except BaseException:  # a signal: an answer may be left to be read
            self._connection.close()
            raise


_TELLS_THE_KEY: Final = ("23503", "23505", "23P01")
"""Broken foreign keys, unique keys and exclusions: their details show the key. Those of others show the whole row."""
