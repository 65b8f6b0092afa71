"""One connection to the store's SQLite file. No other module may use sqlite3.

It waits while SQLite is busy, turns SQLite's errors into oncelog's, and can be disowned after a fork.

Waiting: SQLite's own busy handler sleeps longer the longer it has waited, so newer waiters overtake it; of eight
writers, some committed nothing for seconds. Here every waiter tries about once a millisecond, and all of them get their
turn. Trying ten times as often cost eight writers on two cores a quarter of their transactions. A lock file in front of
SQLite's lock was as fair and as fast, but is a second lock.

No other code in this process may open and close the file: closing it drops SQLite's POSIX locks.
"""

from __future__ import annotations

import ctypes
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.errors import (
    CorruptDataError,
    IllegalStateTransitionError,
    OncelogError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreUnavailableError,
)
from oncelog.limits import STORE_BUSY_MS, WAL_KEEP_BYTES
from oncelog.znodes.host import mount_of

Row = tuple[Any, ...]

SQLITE_VERSION = sqlite3.sqlite_version
"""Version of the SQLite library that Python uses."""


class FileIdentity(NamedTuple):
    """Identifies a file independently of its name."""

    device: int
    inode: int


_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_NO_ACCESS = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA}
"""A plain SQLITE_ERROR means a missing table or column, since the statements themselves are correct."""

_WRITE_LOCK_BYTE = 120
"""The byte of the -shm file that SQLite's unix VFS locks for WAL_WRITE_LOCK."""


def create_database(path: Path, script: str) -> None:
    """Create a database in WAL mode with `script`. It is complete and on disk when this returns."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {script} COMMIT;")
    except sqlite3.Error as error:
        raise _translated(error, path) from error


class StoreConnection:
    """A connection for one thread at a time. Statements run outside of a transaction unless one was begun.

    Args:
        path: of an existing file; it is never created here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_broken = False
        """Whether an error left it in an unknown state: close it, and do not use it again."""
        self.is_inherited = False
        try:
            self.file = _identity(path)
            self._sqlite = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=0,  # this class waits by itself
                isolation_level=None,  # and begins its own transactions
                check_same_thread=False,
            )
        except OSError as error:
            raise StoreAccessError("the znode store cannot be opened", path=str(path), reason=str(error)) from error
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        try:
            self.rows("PRAGMA synchronous = FULL")
            self.rows("PRAGMA fullfsync = ON")  # for macOS, where a plain fsync does not reach the disk
            self.rows(f"PRAGMA journal_size_limit = {WAL_KEEP_BYTES}")
        except BaseException:
            self.close()
            raise

    @property
    def is_in_transaction(self) -> bool:
        return self._sqlite.in_transaction

    def rows(self, sql: str, parameters: Row = ()) -> list[Row]:
        """Run a statement; returns all its rows."""
        return self._patiently(sql, parameters)[0]

    def change(self, sql: str, parameters: Row) -> int:
        """Run a statement that writes; returns how many rows it changed."""
        return self._patiently(sql, parameters)[1]

    def begin_reading(self) -> None:
        """Begin a transaction in which all reads show the moment of the first one.

        Raises:
            StoreAccessError: there is another file, or none, at the path now.
        """
        self.rows("BEGIN")
        self._check_in_place()

    def begin_writing(self) -> None:
        """Take the store's write lock.

        Raises:
            StoreUnavailableError: another process holds it for too long.
            StoreAccessError: there is another file, or none, at the path now.
        """
        self.rows("BEGIN IMMEDIATE")
        self._check_in_place()

    def _check_in_place(self) -> None:
        try:
            is_in_place = _identity(self._path) == self.file
        except OSError:
            is_in_place = False
        if not is_in_place:
            self.is_broken = True
            self.rollback()
            raise not_in_place(self._path)

    def commit(self) -> None:
        """Make the transaction durable.

        Raises:
            OutcomeUnknownError: the disk failed; the write may or may not appear later.
            StoreUnavailableError: the disk is full; nothing was written.
        """
        try:
            self._sqlite.execute("COMMIT")
        except sqlite3.Error as error:
            self.is_broken = True
            self.rollback()
            raise _translated(error, self._path, is_commit=True) from error

    def rollback(self) -> None:
        """End the transaction, if there is one, without writing."""
        if self.is_inherited or not self.is_in_transaction:
            return
        try:
            self._sqlite.execute("ROLLBACK")
        except sqlite3.Error:  # closing the connection has the same effect
            self.is_broken = True

    def close(self) -> None:
        if not self.is_inherited:
            self._sqlite.close()

    def __del__(self) -> None:
        """Close the file of a store that is dropped; since Python 3.13, sqlite3 warns if it has to do that itself."""
        if hasattr(self, "_sqlite"):
            self.close()

    def disown(self) -> None:
        """Never use or close this connection again: it is a forked copy, and the parent holds the file's locks."""
        self.is_inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._sqlite))  # so that no finalizer closes it

    def _patiently(self, sql: str, parameters: Row) -> tuple[list[Row], int]:
        """Run a statement, and again while SQLite is busy; returns its rows, and how many it changed."""
        if self.is_inherited:
            raise IllegalStateTransitionError("this snapshot of the znode store belongs to the parent process")
        began_s: float | None = None
        while True:
            try:
                cursor = self._sqlite.execute(sql, parameters)
                return cursor.fetchall(), cursor.rowcount
            except UnicodeDecodeError as error:  # from SQLite's message, which quotes damaged data
                self.is_broken = True
                raise _translated(sqlite3.DatabaseError(f"Could not decode to UTF-8: {error}"), self._path) from error
            except sqlite3.Error as error:
                if _code(error) not in _BUSY:
                    self.is_broken = True
                    raise _translated(error, self._path) from error
                now_s = time.monotonic()
                began_s = began_s or now_s
                if now_s - began_s > STORE_BUSY_MS / 1000:
                    raise _translated(error, self._path) from error
            time.sleep(_pause_s(now_s - began_s))


def _translated(error: sqlite3.Error, path: Path, *, is_commit: bool = False) -> OncelogError:
    """The error of oncelog for an error of SQLite."""
    code, about = _code(error), {"path": str(path), "reason": str(error)}
    if code in _BUSY:
        return StoreUnavailableError(
            "the znode store stays locked, so the process that holds the lock must be suspended or stuck",
            holder_pid=_write_lock_holder(path),
            **about,
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailableError(
            "the file system of the znode store is full, and nothing was written; make space on it",
            file_system=str(mount_of(path)),
            **about,
        )
    if is_commit:
        return OutcomeUnknownError("the disk failed while the znode store wrote: run the same step again", **about)
    if code in _NO_ACCESS:
        return StoreAccessError("the znode store cannot be opened for writing by this process", **about)
    if code in _CORRUPT:
        return damaged(path, str(error))
    return StoreUnavailableError("the znode store failed and nothing was written", **about)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for errors of the sqlite3 module itself."""
    if str(error).startswith("Could not decode to UTF-8"):  # raised by the module itself: the text is damaged
        return sqlite3.SQLITE_CORRUPT
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def damaged(path: Path, reason: str) -> CorruptDataError:
    return CorruptDataError(
        "the file of the znode store is damaged, or is not a store of oncelog: restore it from a backup, together with "
        "its -wal file, or save what is left with the `.recover` command of sqlite3",
        path=str(path),
        reason=reason,
    )


def not_in_place(path: Path) -> StoreAccessError:
    return StoreAccessError(
        "the file of the znode store was moved or removed while it was open; nothing was written: open the log again",
        path=str(path),
    )


def _identity(path: Path) -> FileIdentity:
    stat = path.stat()
    return FileIdentity(stat.st_dev, stat.st_ino)


def _pause_s(waited_s: float) -> float:
    """How long to sleep before the next try.

    Commits take 0.1 ms to a few ms. After 0.2 s a queue cannot be the reason any more: the holder is slow or suspended,
    and more tries would only take processor time that it needs.
    """
    return random.uniform(0.0005, 0.0015) if waited_s < 0.2 else random.uniform(0.001, 0.005)


def _write_lock_holder(path: Path) -> int | None:
    """The process that holds the store's write lock, if the system tells (Linux, same process namespace)."""
    try:
        inode = Path(f"{path}-shm").stat().st_ino  # not opened, because closing it would drop SQLite's locks
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 11735 fe:00:4194306 120 120
        fields = line.split()
        if fields[1] == "POSIX" and fields[3] == "WRITE" and fields[5].endswith(f":{inode}"):
            first, last = int(fields[6]), fields[7]
            if first <= _WRITE_LOCK_BYTE and (last == "EOF" or int(last) >= _WRITE_LOCK_BYTE):
                return int(fields[4])
    return None
