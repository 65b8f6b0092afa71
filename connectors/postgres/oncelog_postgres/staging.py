"""The staging table of an attempt, and the tasks that copy rows into it.

Each task copies its rows in one transaction, marked with the *token* of this try of the task. Tasks that Spark tries
again, speculative copies and tasks of dead drivers thus leave rows of which nobody names the token, or an error: with
the table, which is dropped when the attempt is over, their place is gone, and they create none.

Or the task writes into the table itself, in a transaction that it prepares (prepared.py). Then the staging table has no
rows but the tokens, by which such tasks need it in the same way.

The rows come from Spark as Arrow batches, and go to the server in the binary form of COPY, by ADBC's driver: columns at
a time, and nothing for each row in Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oncelog.crash_points import reach
from oncelog.errors import UsageError
from oncelog.randomness import random_bytes
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.failures import of_copy, refused
from oncelog_postgres.kept import Kept, check
from oncelog_postgres.settings import BEGUN, pinned
from oncelog_postgres.stalls import watched

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcConnection, AdbcDatabase

OLDEST_ADBC: Final = (1, 13)
"""Older releases write some values as others, without an error; pyproject.toml says which."""

TOKEN: Final = "oncelog token"
"""The column of the staging table that has the token of a row's task."""

WAITS_AT_MOST_MS: Final = 60_000
"""For keys that another transaction has written: that may be one of this batch, which waits for the end of the job."""


@dataclass(frozen=True, slots=True)
class CopyTask:
    """What a task needs to know; it is pickled into the task, and has no password.

    Attributes:
        address: of the database.
        conninfo: the same in libpq's notation.
        schema, table: the staging table.
        attempt: whose task it is.
        target: schema and name of the table that rows go to, in a transaction that the task prepares; None if they
            are staged.
        kept: what the columns of that table keep of a value, by name.
    """

    address: PostgresAddress
    conninfo: str
    schema: str
    table: str
    attempt: str = ""
    target: tuple[str, str] | None = None
    kept: Mapping[str, Kept] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """What one task copied."""

    token: int
    rows: int


def prepared_as(attempt: str, token: int | str) -> str:
    """The name of the transaction that a task prepares."""
    return f"oncelog_{attempt}_{token}"


def copy(task: CopyTask, batches: Iterable[pa.RecordBatch]) -> Copied | None:
    """Copy the rows of one try of a task, and commit or prepare them; None if there are none.

    Raises:
        OncelogError: see failures.py; nothing was copied.
    """
    filled = (_checked(task, batch) for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    marked = _Marked(chain([first], filled), has_column=task.target is None)
    reader = pa.RecordBatchReader.from_batches(marked.schema_of(first), marked)
    watched(task.address, lambda: _ingest(task, reader, marked))
    return Copied(marked.token, marked.rows)


def _checked(task: CopyTask, batch: pa.RecordBatch) -> pa.RecordBatch:
    check(batch, task.kept)
    return batch


class _Marked:
    """Batches with the token as a further column, if that is where it goes.

    Attributes:
        rows: that went through so far.
        problem: what the batches behind them raised; ADBC would only pass on its text.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], *, has_column: bool) -> None:
        self.token = int.from_bytes(random_bytes(8)) >> 1
        self.rows = 0
        self.problem: BaseException | None = None
        self._batches = batches
        self._has_column = has_column

    def schema_of(self, batch: pa.RecordBatch) -> pa.Schema:
        return batch.schema.append(pa.field(TOKEN, pa.int64())) if self._has_column else batch.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                self.rows += batch.num_rows
                yield self._marked(batch)
        except BaseException as problem:
            self.problem = problem
            raise

    def _marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._has_column:
            return batch
        tokens = pa.repeat(pa.scalar(self.token, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_arrays([*batch.columns, tokens], schema=self.schema_of(batch))


def _ingest(task: CopyTask, reader: pa.RecordBatchReader, marked: _Marked) -> None:
    from adbc_driver_manager import AdbcConnection, Error  # here, because only tasks need it

    about = {"staging": f"{task.schema}.{task.table}"}
    try:
        connection = AdbcConnection(_database(os.getpid(), task.conninfo))
    except Error as problem:
        raise refused(" ".join(str(problem).split()), **about) from None
    has_place = False
    with connection:
        try:
            connection.set_autocommit(False)
            for statement in _before(task, marked.token):
                _run(connection, statement)
            has_place = task.target is not None
            _append(connection, task.target or (task.schema, task.table), reader)
            if task.target is None:
                connection.commit()
            else:
                _run(connection, f"PREPARE TRANSACTION '{prepared_as(task.attempt, marked.token)}'")
            reach(PostgresCrashPoint.COPIED)
        except Error as problem:
            if marked.problem is not None:
                raise marked.problem from None
            raise of_copy(
                problem.sqlstate, str(problem), status=problem.status_code.name, has_place=has_place, **about
            ) from None


def _before(task: CopyTask, token: int) -> Iterator[str]:
    """What a task's transaction begins with."""
    yield f"{BEGUN}; {pinned(**({'lock_timeout': WAITS_AT_MOST_MS} if task.target is not None else {}))}"
    if task.target is not None:
        yield f'INSERT INTO {task.schema}.{task.table} ("{TOKEN}") VALUES ({token})'


def _run(connection: AdbcConnection, sql: str) -> None:
    from adbc_driver_manager import AdbcStatement

    with AdbcStatement(connection) as statement:
        statement.set_sql_query(sql)
        statement.execute_update()


def _append(connection: AdbcConnection, table: tuple[str, str], reader: pa.RecordBatchReader) -> None:
    """By COPY."""
    from adbc_driver_manager import AdbcStatement
    from adbc_driver_manager import StatementOptions as Options

    with AdbcStatement(connection) as ingestion:
        ingestion.set_options(
            **{
                Options.INGEST_TARGET_DB_SCHEMA.value: table[0],
                Options.INGEST_TARGET_TABLE.value: table[1],
                Options.INGEST_MODE.value: "adbc.ingest.mode.append",
            }
        )
        ingestion.bind_stream(reader)
        ingestion.execute_update()


@lru_cache(maxsize=4)
def _database(_: int, conninfo: str) -> AdbcDatabase:
    """What ADBC knows of a database, for all tasks of this process: to look its types up takes longer than to connect.

    It is no connection. A forked child looks for itself.
    """
    import adbc_driver_postgresql

    installed = adbc_driver_postgresql.__version__
    if tuple(map(int, installed.split(".")[:2])) < OLDEST_ADBC:
        raise UsageError(
            "the package adbc-driver-postgresql is too old in the Python of Spark's executors: it would write wrong "
            "values; update it there",
            installed=installed,
            oldest=".".join(map(str, OLDEST_ADBC)),
        )
    known: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
    return known
