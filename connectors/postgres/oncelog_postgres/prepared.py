"""Batches whose tasks write into the table themselves, each in a transaction that it prepares (`transaction=task`).

A prepared transaction is on the server's disk and outlives its session, so the rows are written once, and not staged.
In each is a row of the attempt's staging table, which has no other columns then: the token of the try. It says of a
restart's transactions which are committed, and it makes that table's lock the lock of all of them: nobody can drop the
table, and forget the attempt, while one of its transactions is left.
"""

from __future__ import annotations

from typing import Final

from oncelog.crash_points import reach
from oncelog.errors import CorruptDataError, NotPreparedError, UsageError
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.database import Database, Sql, name, text
from oncelog_postgres.errors import DatabaseUnavailableError
from oncelog_postgres.insertion import Insertion
from oncelog_postgres.staging import TOKEN, prepared_as
from oncelog_postgres.tables import Table

_OPEN: Final = text("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")


def require_prepared_transactions(database: Database, table: Table) -> None:
    """Refuse a server that keeps none, as is PostgreSQL's default, and a table that takes no COPY from this role.

    Raises:
        UsageError: either is so.
    """
    if database.rows(text("SELECT row_security_active({table})", table=str(table.name))) == [(True,)]:
        raise UsageError(
            "transaction=task copies rows into the table, which PostgreSQL does not support for a table with row "
            "security; leave the option out",
            table=str(table.name),
        )
    if database.rows(text("SELECT current_setting('max_prepared_transactions')")) == [("0",)]:
        raise UsageError(
            "transaction=task needs a server that keeps prepared transactions: set max_prepared_transactions to more "
            "than the tasks that run at a time, and restart the server, or leave the option out",
            database=str(database.address),
        )


def check_prepared(database: Database, insertion: Insertion) -> None:
    """See that the tasks' transactions are all there, before the decision.

    Raises:
        NotPreparedError: somebody has rolled one back.
    """
    found = _prepared(database, insertion.attempt)
    missing = [token for token in insertion.tokens if prepared_as(insertion.attempt, token) not in found]
    if missing:
        raise NotPreparedError(
            "a task's prepared transaction is gone; nothing was decided", missing=len(missing), prefix=insertion.prefix
        )


def commit_pieces(database: Database, insertion: Insertion) -> None:
    """Commit the transactions of the tasks that won, but for those that are committed.

    Raises:
        CorruptDataError: one was neither committed nor is it prepared.
    """
    committed = {token for (token,) in database.rows(_committed(insertion))}
    found = _prepared(database, insertion.attempt)
    for token in insertion.tokens:
        if token in committed:
            continue
        named = prepared_as(insertion.attempt, token)
        try:
            if named not in found:
                raise _is_gone(insertion, named)
            database.run(text("COMMIT PREPARED {named}", named=named))
        except (CorruptDataError, DatabaseUnavailableError):
            if (token,) not in database.rows(_committed(insertion)):  # by another driver, just now
                raise
        reach(PostgresCrashPoint.PIECE)


def _is_gone(insertion: Insertion, named: str) -> CorruptDataError:
    return CorruptDataError(
        "a prepared transaction of a decided batch is gone, and was never committed: somebody has rolled it back, or "
        "the database was restored from a backup. Then restore the ledger and the checkpoint of the same moment",
        transaction=named,
        table=str(insertion.table),
    )


def roll_back_pieces(database: Database, attempt: str) -> None:
    """Roll back what an attempt has prepared; behind `commit_pieces`, what tries that lost have."""
    for named in sorted(_prepared(database, attempt)):
        database.run(text("ROLLBACK PREPARED {named}", named=named))


def _prepared(database: Database, attempt: str) -> set[str]:
    mine = text("{all} AND starts_with(gid, {of_attempt})", all=_OPEN, of_attempt=prepared_as(attempt, ""))
    return {named for (named,) in database.rows(mine)}


def _committed(insertion: Insertion) -> Sql:
    return text("SELECT {token} FROM {staging}", token=name(TOKEN), staging=name(insertion.schema, insertion.staging))
