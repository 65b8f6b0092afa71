"""Checks a log and its place: file system, free space, fsync, locks, store, clock.

Nothing is written into the log. fsync and locks are tested with a temporary file next to the log's folder.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import oncelog
from oncelog import folders, runtime
from oncelog.cli.checks.findings import Finding, Verdict, broken, note, ok
from oncelog.cli.output import duration, moment, plural, size
from oncelog.errors import OncelogError
from oncelog.log.files import absolute, is_object_store
from oncelog.metadata import place_of
from oncelog.runtime import Log
from oncelog.znodes import paths
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.host import mount_of
from oncelog.znodes.schemes import Place
from oncelog.znodes.sqlite import SQLITE_VERSION
from oncelog.znodes.url_options import host_and_port, host_port

LITTLE_BYTES = 1024**3
"""Less free space than this is worth a note: a Spark batch may need as much."""

NO_BYTES = 64 * 1024**2
"""Less free space than this counts as none: a data file is rolled at this size."""

SLOW_SYNC_MS = 200
AHEAD_MS = 60_000
"""If a store's last write is this far in the future, one of the clocks is wrong."""

_CONNECT_S = 3
_UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2)."""

_TRY_LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def check(path: str | None, znodes: str | None) -> Iterator[Finding]:
    """All checks of a log.

    Args:
        path, znodes: of the log, as in `runtime.open`; without a path, only the checks that need no log.
    """
    yield ok("SQLite", SQLITE_VERSION)
    yield _clock()
    if path is None:
        yield note("log", "not checked, because none was named", "give --path DIR, or set ONCELOG_PATH")
        return
    try:
        root = absolute(path)
        place = place_of(root, znodes)
    except OncelogError as error:
        yield broken("log", path, str(error))
        return
    if not is_object_store(root):
        yield from _file_system(Path(root))
    servers = list(_servers(place))
    yield from servers
    if all(server.verdict is Verdict.BROKEN for server in servers) and servers:
        return  # opening the log would only fail after a long time
    yield from _log(root, znodes, place)


def _clock() -> Finding:
    if wall_ms() < Path(oncelog.__file__).stat().st_mtime * 1000 - AHEAD_MS:
        return broken("clock", "it shows a time before oncelog was installed", "set it with NTP")
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)  # only Linux has it
    if adjtimex is not None and adjtimex(ctypes.create_string_buffer(1024)) == _UNSYNCHRONISED:
        return note("clock", "the kernel says that it is not synchronised", "run an NTP client on this host")
    return ok("clock", moment(wall_ms()))


# The file system ------------------------------------------------------------------------------------------------------


def _file_system(folder: Path) -> Iterator[Finding]:
    mount = mount_of(folder)
    yield ok("file system", f"{mount}, {'shared by hosts' if mount.is_network else 'local'}")
    there = next(place for place in (folder, *folder.parents) if place.exists())
    yield _space(there)
    if not os.access(there, os.W_OK):
        yield broken("rights", f"this user cannot write to {there}", "give this user write permission there")
        return
    yield from _tried(folder, there if there != folder else folder.parent)


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{size(free)} free"
    if free < NO_BYTES:
        return broken("free space", found, f"make space on {mount_of(folder)}")
    return (
        note("free space", found, f"make space on {mount_of(folder)}")
        if free < LITTLE_BYTES
        else ok("free space", found)
    )


def _tried(folder: Path, parent: Path) -> Iterator[Finding]:
    """Test fsync and locks, in a temporary folder next to the log's on the same file system."""
    if mount_of(parent) != mount_of(folder) or not os.access(parent, os.W_OK):
        yield note("fsync", f"not tested: this needs a writable folder next to {folder}, on the same file system")
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".oncelog-doctor-", dir=parent) as trial:
            yield _sync(Path(trial, "file"))
            yield _locks(Path(trial, "file"))
    except OSError as error:
        yield broken("fsync", f"a file in {parent} cannot be written and synced: {error}", "repair the file system")


def _sync(path: Path) -> Finding:
    began_s = time.monotonic()
    with path.open("wb") as file:
        file.write(b"oncelog")
        file.flush()
        os.fsync(file.fileno())
    folders.sync(path.parent)
    took_ms = round((time.monotonic() - began_s) * 1000)
    if took_ms > SLOW_SYNC_MS:
        return note("fsync", f"a file took {took_ms} ms", "use a faster disk, or see what else uses this one")
    return ok("fsync", f"a file took {took_ms} ms")


def _locks(path: Path) -> Finding:
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        other = subprocess.run([sys.executable, "-ISc", _TRY_LOCK, str(path)], capture_output=True, check=False)
    if other.returncode == 0:
        return broken("locks", "two processes got the same lock", "keep znodes on a local disk, or in ZooKeeper")
    return ok("locks", "one process at a time")


# The store and the log ------------------------------------------------------------------------------------------------


def _servers(place: Place) -> Iterator[Finding]:
    """Whether each server of a ZooKeeper ensemble or of a PostgreSQL accepts connections."""
    kind, servers = _servers_of(place)
    for host, port in servers:
        server = f"{kind} {host_port(host, port)}"
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
            yield ok(server, "accepts connections")
        except OSError as error:
            yield broken(server, f"cannot be reached: {error}", "start it, or correct --znodes or the network")


def _servers_of(place: Place) -> tuple[str, Sequence[tuple[str, int]]]:
    """What a store's servers are, with host and port of each; none for a store without servers."""
    match place.url.partition(":")[0]:
        case "zk":
            from oncelog.znodes.zookeeper.address import ZookeeperAddress

            servers = ZookeeperAddress.parse(place.url).servers.split(",")
            return "ZooKeeper", [host_and_port(server) for server in servers]
        case "postgresql":
            from oncelog.znodes.postgres.address import PostgresAddress

            return "PostgreSQL", PostgresAddress.parse(place.url).servers
    return "", ()


def _log(root: str, znodes: str | None, place: Place) -> Iterator[Finding]:
    began_s = time.monotonic()
    try:
        if not place.is_there():
            yield note("log", f"there is none at {root} yet", "oncelog topic create NAME creates one")
            return
        with runtime.open(root, znodes, create=False) as log:
            topics = plural(len(log.admin.list_topics()), "topic")
            took_ms = round((time.monotonic() - began_s) * 1000)
            yield ok("log", f"{root}: {topics}, znodes in {place}, opened in {took_ms} ms")
            yield from _time_of(log)
    except OncelogError as error:
        yield broken("log", root, str(error))


def _time_of(log: Log) -> Iterator[Finding]:
    """Whether the store's last write is in the future: time-outs and retention do not advance until then."""
    fixed = log.services.store.get_many([paths.FORMAT, paths.CLOCK, paths.COMMITS, paths.PRODUCER_IDS])
    ahead_ms = max(znode.stat.mtime_ms for znode in fixed if znode is not None) - wall_ms()
    if ahead_ms > AHEAD_MS:
        found = f"the log's last write is {duration(ahead_ms)} ahead of this host's clock"
        yield broken("clock of the log", found, "set this host's clock, and that of the host that wrote, with NTP")
