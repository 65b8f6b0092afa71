"""The embedded znode store: one SQLite file, which the processes of one host share.

A step runs on a snapshot: a read transaction, which blocks nobody. The write lock is taken only to check and to write,
so a process that is suspended inside a step blocks nobody. Every commit is on disk when `multi` returns (WAL,
synchronous=FULL). Crash points: before the frame of the COMMIT is in the write-ahead log, nothing has happened; after
it, everything has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from oncelog.errors import CorruptDataError, InvariantViolation
from oncelog.ports import ANY_VERSION, Check, Clock, Create, Delete, Op, Set, Stat, Timing, Watch, Znode, ZnodeReader
from oncelog.znodes.clock import SYSTEM_CLOCK, SystemClock, uniform_jitter, wall_ms
from oncelog.znodes.errors import MultiFailedError, Refusal
from oncelog.znodes.host import HostIdentity
from oncelog.znodes.rules import ROOT, ensure_acceptable, split_path
from oncelog.znodes.sqlite import file
from oncelog.znodes.sqlite.bell import Bells, ring
from oncelog.znodes.sqlite.connection import FileIdentity, Row, StoreConnection, not_in_place
from oncelog.znodes.sqlite.pool import ConnectionPool
from oncelog.znodes.sqlite.watch import SqliteWatch
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh


class SqliteZnodeStore(Transacting):
    """`ports.ZnodeStore` in one SQLite file.

    Threads may share it. A pickled store contains the path, and opens the file at its first use. A forked child opens
    its own connections; only after a fork inside a step or snapshot, the child cannot use the store (pool.py).

    Args:
        path: of the file, on a local file system.
        create: whether to create the file and missing folders.
        host_id: identifies this host instead of its machine id, like ``ONCELOG_HOST_ID`` (host.py).
        now_ms, clock, jitter: see `ports.Timing`. If `now_ms` goes back, the store's time stays the same.

    Raises:
        StoreHostError: the file belongs to another host, or is on a network file system.
        StoreAccessError: the file or its folder is read-only for this process. In later calls: the file was moved or
            removed.
        CorruptDataError: the file is damaged, or not a store.
        UnsupportedFormatError: this oncelog does not know its layout.
        InvalidOptionError: there is no file, and `create` is False.
    """

    reads_are_atomic = True

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        host_id: str | None = None,
        now_ms: Callable[[], int] = wall_ms,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] = uniform_jitter,
    ) -> None:
        self._set_up(Path(path).resolve(), host_id, Timing(now_ms, clock, jitter), create=create)
        with self._pool.lent():
            pass  # so that a file that cannot be used is refused now, and not at the first read

    @staticmethod
    def adopt_host(path: str | Path, *, host_id: str | None = None) -> None:
        """Make this host the owner of the store. No process of its former host may use it any more."""
        resolved = Path(path).resolve()
        pool = ConnectionPool(str(resolved), lambda: file.connect_to_store(resolved))
        try:
            with pool.lent() as connection:
                file.record_owner(connection, HostIdentity.here(host_id))
        finally:
            pool.close()

    def get(self, path: str) -> Znode | None:
        with self._pool.lent() as connection:
            return _Reader(connection).get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        with self._pool.lent() as connection:
            return _Reader(connection).get_many(paths)

    def children(self, path: str) -> list[str]:
        with self._pool.lent() as connection:
            return _Reader(connection).children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        with self._pool.lent() as connection:
            return _Reader(connection).children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with self._pool.lent() as connection:
            try:
                connection.begin_reading()
                yield _Reader(connection)
            finally:
                connection.rollback()

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)
        with self._pool.lent() as connection:
            try:
                connection.begin_writing()
                ensure_fresh(is_fresh)
                _apply(connection, ops, self.timing.now_ms())
                connection.commit()
            finally:
                connection.rollback()
        if not all(isinstance(op, Check) for op in ops):
            ring(self._path)

    def watch(self) -> AbstractContextManager[Watch]:
        if not isinstance(self.timing.clock, SystemClock):
            return super().watch()  # a clock that a test drives goes on only if it is waited for
        return SqliteWatch(self, self._newest_zxid, self._bells)

    def sync(self) -> None:
        """Nothing to do: reads see all acknowledged writes."""

    def close(self) -> None:
        self._pool.close()
        self._bells.close()

    def __repr__(self) -> str:
        return f"SqliteZnodeStore({str(self._path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._path, self._host_id, self.timing)

    def _set_up(self, path: Path, host_id: str | None, timing: Timing, *, create: bool) -> None:
        self._path = path
        self._host_id = host_id
        self._creates = create
        self._file: FileIdentity | None = None  # set once the file was checked and claimed
        self.timing = timing
        self._pool = ConnectionPool(str(path), self._connect)
        self._bells = Bells(path)

    def _newest_zxid(self) -> int:
        """The zxid of the last multi."""
        with self._pool.lent() as connection:
            rows = connection.rows("SELECT zxid FROM meta")
        if len(rows) != 1 or type(rows[0][0]) is not int:
            raise _damaged()
        zxid: int = rows[0][0]
        return zxid

    def _connect(self) -> StoreConnection:
        if self._file is not None:
            return self._connect_again(self._file)
        if self._creates:
            file.create_if_missing(self._path)
        connection = file.connect_to_store(self._path)
        try:
            file.claim(connection, self._path, HostIdentity.here(self._host_id))
        except BaseException:
            connection.close()
            raise
        self._file, self._creates = connection.file, False
        return connection

    def _connect_again(self, expected: FileIdentity) -> StoreConnection:
        connection = StoreConnection(self._path)
        if connection.file != expected:
            connection.close()
            raise not_in_place(self._path)
        return connection


def _reopened(path: Path, host_id: str | None, timing: Timing) -> SqliteZnodeStore:
    """A store that opens its file at the first use. Called by pickle."""
    store = SqliteZnodeStore.__new__(SqliteZnodeStore)
    store._set_up(path, host_id, timing, create=False)
    return store


KEYS_PER_SELECT = 500
"""How many znodes one statement reads at most; SQLite allows 32,766 parameters in a statement."""

_ZNODE_TYPES = (bytes, int, int, int, int, int)


class _Reader:
    """`ports.ZnodeReader` over one connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def get(self, path: str) -> Znode | None:
        rows = self._connection.rows(
            "SELECT data, czxid, mzxid, ctime_ms, mtime_ms, version FROM znodes WHERE parent = ? AND name = ?",
            split_path(path),
        )
        return _znode(rows[0]) if rows else None

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        keys = [split_path(path) for path in paths]
        found: dict[Row, Znode] = {}
        for start in range(0, len(keys), KEYS_PER_SELECT):
            some = keys[start : start + KEYS_PER_SELECT]
            rows = self._connection.rows(_select_of(len(some)), tuple(chain.from_iterable(some)))
            found |= {row[:2]: _znode(row[2:]) for row in rows}
        return [found.get(key) for key in keys]

    def children(self, path: str) -> list[str]:
        split_path(path)
        rows = self._connection.rows("SELECT name FROM znodes WHERE parent = ? ORDER BY name", (path,))
        return [_name(name) for (name,) in rows]

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        split_path(path)
        rows = self._connection.rows(
            "SELECT name, data, czxid, mzxid, ctime_ms, mtime_ms, version FROM znodes WHERE parent = ? ORDER BY name",
            (path,),
        )
        return [(_name(row[0]), _znode(row[1:])) for row in rows]


@cache
def _select_of(count: int) -> str:
    """The statement that reads so many znodes. SQLite would not use the index for `(parent, name) IN (VALUES ...)`."""
    wanted = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH wanted (parent, name) AS (VALUES {wanted}) "
        "SELECT parent, name, data, czxid, mzxid, ctime_ms, mtime_ms, version "
        "FROM wanted CROSS JOIN znodes USING (parent, name)"
    )


def _znode(row: Row) -> Znode:
    if tuple(map(type, row)) != _ZNODE_TYPES:
        raise _damaged()
    data, *numbers = row
    return Znode(data, Stat(*numbers))


def _name(value: object) -> str:
    try:
        if type(value) is str and split_path(f"/{value}") == (ROOT, value):
            return value
    except InvariantViolation:
        pass
    raise _damaged()


def _damaged() -> CorruptDataError:
    """SQLite returns a value in the type of its bytes, whatever the type of its column is."""
    return CorruptDataError("the file of the znode store is damaged: a znode has an impossible name or value")


def _apply(connection: StoreConnection, ops: Sequence[Op], wall_now_ms: int) -> None:
    """Apply all operations in the transaction, or raise a MultiFailedError; the caller must roll back then."""
    zxid, now_ms = 0, 0
    if not all(isinstance(op, Check) for op in ops):
        moments = connection.rows(
            "UPDATE meta SET zxid = zxid + 1, last_ms = max(last_ms, ?) RETURNING zxid, last_ms", (wall_now_ms,)
        )
        if len(moments) != 1 or not all(type(value) is int for value in moments[0]):
            raise _damaged()
        ((zxid, now_ms),) = moments
    for index, op in enumerate(ops):
        refusal = _apply_one(connection, op, zxid, now_ms)
        if refusal is not None:
            raise MultiFailedError.at(index, op.path, refusal)


def _apply_one(connection: StoreConnection, op: Op, zxid: int, now_ms: int) -> Refusal | None:
    key = split_path(op.path)
    match op:
        case Check(_, version):
            return _refusal(connection, key, version)
        case Set(_, data, version):
            changed = connection.change(
                "UPDATE znodes SET data = ?, mzxid = ?, mtime_ms = ?, version = version + 1 "
                "WHERE parent = ? AND name = ? AND ? IN (version, -1)",
                (data, zxid, now_ms, *key, version),
            )
            return None if changed else _refusal(connection, key, version)
        case Create(_, data):
            created = connection.change(
                "INSERT OR IGNORE INTO znodes SELECT ?, ?, ?, ?, ?, ?, ?, 0 "
                "WHERE EXISTS (SELECT 1 FROM znodes WHERE parent = ? AND name = ?)",
                (*key, data, zxid, zxid, now_ms, now_ms, *split_path(key[0] or ROOT)),
            )
            if created:
                return None
            return Refusal.NODE_EXISTS if _refusal(connection, key, ANY_VERSION) is None else Refusal.NO_NODE
        case Delete(path, version):
            deleted = connection.change(
                "DELETE FROM znodes WHERE parent = ? AND name = ? AND ? IN (version, -1) "
                "AND NOT EXISTS (SELECT 1 FROM znodes WHERE parent = ?)",
                (*key, version, path),
            )
            return None if deleted else _refusal(connection, key, version) or Refusal.NOT_EMPTY


def _refusal(connection: StoreConnection, key: tuple[str, str], version: int) -> Refusal | None:
    rows = connection.rows("SELECT version FROM znodes WHERE parent = ? AND name = ?", key)
    if not rows:
        return Refusal.NO_NODE
    return None if version in (ANY_VERSION, rows[0][0]) else Refusal.BAD_VERSION
