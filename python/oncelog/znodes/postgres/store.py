"""The znode store on PostgreSQL, for many hosts.

A step runs on a snapshot: a read-only transaction, which blocks nobody. A multi takes two round trips. The first takes
the lock, which is the row with the last zxid, and reads the znodes that the operations name. Their conditions are
checked here, by the same code as in memory (znodes/tree.py), and the second one writes and commits. Nearly every step
of a log sets ``/commits``, so a lock for each znode would let few more of them through.

A process that is suspended between the two holds the lock: the server ends its transaction after
limits.POSTGRES_STALL_MS, and others continue.

If the connection is lost while a multi commits, another one takes the lock, and then finds the multi's zxid with its
token, or not. A COMMIT that is still on its way has no effect any more: its transaction has ended, or else it would
still hold the lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from oncelog.errors import InvalidOptionError, OncelogError, OutcomeUnknownError, StoreUnavailableError
from oncelog.ports import Op, Timing, Znode, ZnodeReader
from oncelog.randomness import random_id
from oncelog.znodes.clock import SYSTEM_TIMING
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.connection import Row, Statement, StoreConnection
from oncelog.znodes.postgres.failures import LostError, NotNowError, gone
from oncelog.znodes.postgres.pool import ConnectionPool, Visit
from oncelog.znodes.postgres.tables import BEGIN_READING, Tables, changes, piece, znode_of
from oncelog.znodes.rules import ensure_acceptable, split_path
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh

T = TypeVar("T")

_PAUSE_S = 0.05
"""Between two tries to reach a server."""


class PostgresZnodeStore(Transacting):
    """`ports.ZnodeStore` in a schema of a PostgreSQL database.

    Threads may share it. After a fork, each process opens connections of its own. A pickled store contains the URL,
    which has no password.

    Args:
        url: ``postgresql://user@host:port/database?option=value``; address.py has the options.
        create: whether to create missing tables, and the schema for them.
        timing: of `transact`; the times of znodes are the server's.

    Raises:
        InvalidOptionError: the URL is malformed.
    """

    reads_are_atomic = True

    def __init__(self, url: str, *, create: bool = True, timing: Timing = SYSTEM_TIMING) -> None:
        self.address = PostgresAddress.parse(url)
        self.timing = timing
        self._creates = create
        self._was_there = False
        self._tables = Tables(self.address)
        self._pool = ConnectionPool(self._connected)
        self._live = _Reader(self._tables, self._rows)

    def __repr__(self) -> str:
        return f"PostgresZnodeStore({str(self.address)!r})"

    def get(self, path: str) -> Znode | None:
        return self._live.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return self._live.get_many(paths)

    def children(self, path: str) -> list[str]:
        return self._live.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return self._live.children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        """The moment that it shows is that of the first read."""
        with self._pool.visited() as visit:
            snapshot = _Snapshot(self, visit)
            try:
                yield _Reader(self._tables, snapshot.rows)
            finally:
                snapshot.end()

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)
        with self._pool.visited() as visit:
            self.patiently(
                visit, lambda connection, within_ms: self._write(visit, connection, within_ms, ops, is_fresh)
            )

    def sync(self) -> None:
        """Nothing to do: reads are answered by the server that takes the writes."""

    def close(self) -> None:
        self._pool.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(PostgresZnodeStore, create=False, timing=self.timing), (self.address.url,)

    def _connected(self, deadline_s: float) -> StoreConnection:
        connection = StoreConnection(self.address, deadline_s)
        try:
            if not self._tables.ensure(connection, create=self._creates and not self._was_there):
                raise self._missing()
        except BaseException:
            connection.close()
            raise
        self._was_there = True
        return connection

    def _missing(self) -> OncelogError:
        if self._was_there:
            return gone("there are none", postgresql=str(self.address))
        return InvalidOptionError(
            "there is no znode store at this URL; check database and schema, or create a log there with "
            "oncelog.open(path, znodes) or `oncelog topic create`",
            postgresql=str(self.address),
        )

    def patiently(self, visit: Visit, ask: Callable[[StoreConnection, int], T]) -> T:
        """The answer to a request; it is made again on another connection while nothing was written and there is time.

        Args:
            visit: has the connection.
            ask: makes the request, on a connection and within so many milliseconds.

        Raises:
            StoreUnavailableError: the time is up.
        """
        deadline_s = time.monotonic() + self.address.timeout_ms / 1000
        while True:
            try:
                connection = visit.connection(deadline_s)
                return ask(connection, max(1, int((deadline_s - time.monotonic()) * 1000)))
            except NotNowError as problem:
                if isinstance(problem, LostError):
                    self._pool.forget_idle()
                if time.monotonic() + _PAUSE_S >= deadline_s:
                    raise self.unavailable(problem) from None
            time.sleep(_PAUSE_S)

    def unavailable(self, reason: object) -> StoreUnavailableError:
        return StoreUnavailableError(
            "no answer from PostgreSQL within the time-out, and nothing was written; check that there is a server that "
            "takes writes, and that it can be reached from here, then make the same call again",
            postgresql=str(self.address),
            timeout_ms=self.address.timeout_ms,
            reason=str(reason).strip(),
        )

    def _rows(self, statement: Statement) -> list[Row]:
        with self._pool.visited() as visit:
            return self.patiently(visit, lambda connection, within_ms: connection.ask(statement)[-1])

    def _write(
        self, visit: Visit, connection: StoreConnection, within_ms: int, ops: Sequence[Op], is_fresh: IsFresh
    ) -> None:
        try:
            tree = piece(connection.ask(*self._tables.begin(ops, within_ms)))
            ensure_fresh(is_fresh)
            before = set(tree.znodes)
            if tree.apply(ops, tree.last_ms):
                self._commit(visit, connection, tree.zxid, changes(ops, before, tree))
        finally:
            connection.rollback()

    def _commit(
        self, visit: Visit, connection: StoreConnection, zxid: int, changed: Mapping[str, Znode | None]
    ) -> None:
        token = random_id()
        try:
            connection.ask(*self._tables.end(changed, zxid, token))
        except LostError as problem:
            if not self._was_committed(visit, zxid, token, problem):
                raise

    def _was_committed(self, visit: Visit, zxid: int, token: str, lost: LostError) -> bool:
        """Whether a multi was committed whose answer was lost.

        Raises:
            OutcomeUnknownError: no server tells.
        """

        def ask(connection: StoreConnection, within_ms: int) -> list[Row]:
            rows = connection.ask(*self._tables.who_committed(zxid, within_ms))[-1]
            connection.rollback()
            return rows

        about = {"postgresql": str(self.address), "reason": str(lost).strip()}
        try:
            rows = self.patiently(visit, ask)
        except OncelogError as problem:
            raise OutcomeUnknownError(
                "the connection to PostgreSQL broke before the answer to a write, and no server tells how it went: run "
                "the same step again",
                **about,
            ) from problem
        found_zxid, found_token = rows[0] if rows else (0, "")
        if found_zxid > zxid:
            raise OutcomeUnknownError(
                "the connection to PostgreSQL broke before the answer to a write, and others wrote too much meanwhile "
                "to tell how it went: run the same step again",
                **about,
            )
        return bool((found_zxid, found_token) == (zxid, token))


class _Snapshot:
    """A read-only transaction, which begins with its first read."""

    def __init__(self, store: PostgresZnodeStore, visit: Visit) -> None:
        self._store = store
        self._visit = visit
        self._connection: StoreConnection | None = None

    def rows(self, statement: Statement) -> list[Row]:
        if self._connection is None:

            def begin(connection: StoreConnection, within_ms: int) -> tuple[StoreConnection, list[Row]]:
                return connection, connection.ask(BEGIN_READING, statement)[-1]

            self._connection, rows = self._store.patiently(self._visit, begin)
            return rows
        try:
            self._connection.wait_until(time.monotonic() + self._store.address.timeout_ms / 1000)
            return self._connection.ask(statement)[-1]
        except NotNowError as problem:
            raise self._store.unavailable(problem) from None

    def end(self) -> None:
        if self._connection is not None:
            self._connection.rollback()


class _Reader:
    """`ports.ZnodeReader` by the rows that statements have."""

    def __init__(self, tables: Tables, rows: Callable[[Statement], list[Row]]) -> None:
        self._tables = tables
        self._rows = rows

    def get(self, path: str) -> Znode | None:
        return self.get_many([path])[0]

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        keys = [split_path(path) for path in paths]
        if not keys:
            return []
        rows = self._rows(self._tables.get_many(keys))
        found = {(parent, name): znode_of(znode) for parent, name, *znode in rows}
        return [found.get(key) for key in keys]

    def children(self, path: str) -> list[str]:
        return [name for (name,) in self._rows(self._tables.children(path))]

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return [(name, znode_of(znode)) for name, *znode in self._rows(self._tables.children_data(path))]
