"""The store's file: creates it, checks that it is a store that this host may use, and records its host.

Schema: one row per znode, in one B-tree ordered by parent and name, so that a znode is one lookup, and the children of
a parent are one range. The single row of `meta` has the last zxid and time, and the host that the file belongs to.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oncelog import folders
from oncelog.errors import (
    CorruptDataError,
    InvalidOptionError,
    StoreAccessError,
    StoreHostError,
    StoreUnavailableError,
    UnsupportedFormatError,
)
from oncelog.limits import STORE_BUSY_MS
from oncelog.znodes.host import HostIdentity, mount_of
from oncelog.znodes.sqlite.connection import StoreConnection, create_database, damaged

APPLICATION_ID: Final = 0x6F6E636C
""""oncl", in the header of the file."""

LAYOUT_VERSION: Final = 1

_SCHEMA: Final = f"""
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {LAYOUT_VERSION};
    CREATE TABLE znodes (
        parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
        czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL,
        version INTEGER NOT NULL,
        PRIMARY KEY (parent, name)
    ) WITHOUT ROWID;
    INSERT INTO znodes VALUES ('', '', x'', 0, 0, 0, 0, 0);
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        zxid INTEGER NOT NULL, last_ms INTEGER NOT NULL,
        host_id TEXT NOT NULL, boot_id TEXT NOT NULL, hostname TEXT NOT NULL
    );
    INSERT INTO meta VALUES (1, 0, 0, '', '', '');
"""


def ensure_local(path: Path) -> None:
    """Raise a StoreHostError if `path` is on a network file system, before anything is created there."""
    mount = mount_of(path)
    if mount.is_network:
        raise StoreHostError(
            "SQLite loses data on network file systems; keep the znodes on a local disk (znodes=sqlite:/local/file) "
            "or on a server (znodes=postgresql://user@host/database or znodes=zk://host:2181/oncelog)",
            path=str(path),
            file_system=str(mount),
        )


def is_there(path: Path) -> bool:
    """Whether the file exists.

    Raises:
        StoreAccessError: the system cannot tell: the path is too long, or a folder is not accessible.
    """
    try:
        return path.exists()
    except OSError as error:
        raise StoreAccessError(
            "the path of the znode store cannot be read", path=str(path), reason=str(error)
        ) from error


def create_if_missing(path: Path) -> None:
    """Create the file if it does not exist. Many processes may try at once; one creates it.

    The file is written under another name and then renamed, so that an empty or incomplete file at `path` is always
    damage, and never a new store. Crash points: before the rename, the next try replaces what is left; after it,
    nothing is left to do.
    """
    ensure_local(path)
    if is_there(path):
        return
    try:
        folders.make(path.parent)
        with _folder_locked(path.parent):
            if path.exists():
                return
            if _beside(path, "-wal").exists():
                raise CorruptDataError(
                    "the file of the znode store is gone, but its write-ahead log exists: restore both from a backup, "
                    "or remove the write-ahead log to start with an empty store",
                    path=str(path),
                )
            _build_and_rename(path)
    except OSError as error:
        raise StoreAccessError("the znode store cannot be created", path=str(path), reason=str(error)) from error


def _build_and_rename(path: Path) -> None:
    new = _beside(path, "-new")
    for leftover in (new, _beside(new, "-wal"), _beside(new, "-shm"), _beside(new, "-journal")):
        leftover.unlink(missing_ok=True)
    create_database(new, _SCHEMA)
    new.rename(path)
    folders.sync(path.parent)


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """Exclude other creators. The lock is on the folder itself, so it needs no file and ends with its holder."""
    descriptor = os.open(folder, os.O_RDONLY)
    deadline_s = time.monotonic() + STORE_BUSY_MS / 1000
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline_s:
                    raise StoreUnavailableError(
                        "another process is creating the znode store", folder=str(folder)
                    ) from error
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def connect_to_store(path: Path) -> StoreConnection:
    """Open an existing store.

    Raises:
        StoreHostError: it is on a network file system.
        InvalidOptionError: it does not exist.
        StoreAccessError: the file or its folder is read-only; even reading needs write access, for SQLite's locks.
        CorruptDataError: it is empty or damaged, or not a store of oncelog.
        UnsupportedFormatError: this oncelog does not know its layout.
    """
    ensure_local(path)
    _ensure_accessible(path)
    connection = StoreConnection(path)
    try:
        _ensure_is_store(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _ensure_accessible(path: Path) -> None:
    """Refuse a missing, empty or read-only file, with clearer errors than SQLite's."""
    if not is_there(path):
        raise InvalidOptionError("there is no znode store at this path", path=str(path))
    if path.stat().st_size == 0:
        raise CorruptDataError("the file of the znode store is empty: restore it from a backup", path=str(path))
    for target in (path, path.parent):
        if not os.access(target, os.R_OK | os.W_OK):
            raise StoreAccessError(
                "the znode store is read-only for this process; even reading needs write access to the file and its "
                "folder, for SQLite's locks",
                path=str(target),
                file_system=str(mount_of(target)),
            )


def _ensure_is_store(connection: StoreConnection, path: Path) -> None:
    """Refuse a file that is not a store of oncelog, or whose pages are inconsistent.

    SQLite itself only checks the pages that it uses: in a damaged file it may acknowledge a row and not find it again,
    or lose another one. Checking all pages takes 2 ms for 10,000 znodes of 300 bytes, and 30 ms for 100,000.
    """
    application_id = connection.rows("PRAGMA application_id")[0][0]
    if application_id != APPLICATION_ID:
        raise CorruptDataError("this SQLite file is not a znode store of oncelog: name another path", path=str(path))
    layout = connection.rows("PRAGMA user_version")[0][0]
    if layout != LAYOUT_VERSION:
        raise UnsupportedFormatError(
            "this oncelog does not know the layout of the znode store: use the release that wrote it, or a newer one",
            path=str(path),
            layout=layout,
            known=LAYOUT_VERSION,
        )
    (finding,) = connection.rows("PRAGMA integrity_check(1)")[0]
    if finding != "ok":
        raise damaged(path, finding)
    if not connection.rows("SELECT 1 FROM znodes WHERE parent = '' AND name = ''"):
        raise CorruptDataError("the znode store has lost its root: restore it from a backup", path=str(path))


def claim(connection: StoreConnection, path: Path, here: HostIdentity) -> None:
    """Record this host as the owner of a new file, or its new boot id after a boot.

    Raises:
        StoreHostError: the file belongs to another host.
    """
    owner = _owner(connection)
    if owner.host_id and not owner.is_same_host(here):
        raise StoreHostError(
            "the znode store belongs to another host, and SQLite is safe on one host only: for several hosts keep the "
            "znodes on a server (znodes=postgresql://user@host/database or znodes=zk://host:2181/oncelog). If that "
            "host is gone for good, or this is the same host with another name, run `oncelog meta adopt-host`; "
            "ONCELOG_HOST_ID sets a host's name",
            path=str(path),
            store_host=f"{owner.hostname} {owner.host_id}",
            this_host=f"{here.hostname} {here.host_id}",
        )
    # During one boot the recorded host id is kept: containers come and go, and any container's id will do.
    if not owner.host_id or owner.boot_id != here.boot_id:
        record_owner(connection, here)


def record_owner(connection: StoreConnection, owner: HostIdentity) -> None:
    connection.begin_writing()
    try:
        fields = (owner.host_id, owner.boot_id, owner.hostname)
        connection.change("UPDATE meta SET host_id = ?, boot_id = ?, hostname = ?", fields)
        connection.commit()
    finally:
        connection.rollback()


def _owner(connection: StoreConnection) -> HostIdentity:
    rows = connection.rows("SELECT host_id, boot_id, hostname FROM meta")
    if len(rows) != 1 or not all(type(value) is str for value in rows[0]):
        raise CorruptDataError("the file of the znode store does not name its host: restore it from a backup")
    return HostIdentity(*rows[0])


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
