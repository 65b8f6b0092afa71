"""A log and the place where it is: file system, free space, fsync, locks, store, clock.

Nothing is written into the log. Whether its file system keeps what it promises is tried with a file of a moment beside
the log's folder.
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
from collections.abc import Iterator
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

LITTLE_BYTES = 1024**3
"""Less free space than this is worth a note: a batch of Spark may need as much."""

NO_BYTES = 64 * 1024**2
"""Less than this is no space: a data file is rolled at this size."""

SLOW_SYNC_MS = 200
AHEAD_MS = 60_000
"""A store whose last write is this far in the future was written under another clock."""

_CONNECT_S = 3
_UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2)."""

_TRY_LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def check(path: str | None, znodes: str | None) -> Iterator[Finding]:
    """Everything.

    Args:
        path, znodes: of the log, as `runtime.open` takes them; without a path only what belongs to no log.
    """
    yield ok("SQLite", SQLITE_VERSION)
    yield _clock()
    if path is None:
        yield note("log", "none named, so none was looked at", "give --path DIR, or set ONCELOG_PATH")
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
        return  # a log that nobody can open takes long to say so
    yield from _log(root, znodes, place)


def _clock() -> Finding:
    if wall_ms() < Path(oncelog.__file__).stat().st_mtime * 1000 - AHEAD_MS:
        return broken("clock", "it is before the time at which oncelog was installed", "set it, by NTP")
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)  # Linux has it
    if adjtimex is not None and adjtimex(ctypes.create_string_buffer(1024)) == _UNSYNCHRONISED:
        return note("clock", "the kernel does not know it to be synchronised", "run an NTP client on this host")
    return ok("clock", moment(wall_ms()))


# The file system ------------------------------------------------------------------------------------------------------


def _file_system(folder: Path) -> Iterator[Finding]:
    mount = mount_of(folder)
    yield ok("file system", f"{mount}, {'shared by hosts' if mount.is_network else 'local'}")
    there = next(place for place in (folder, *folder.parents) if place.exists())
    yield _space(there)
    if not os.access(there, os.W_OK):
        yield broken("rights", f"{there} is not writable for this user", "give this user the right to write there")
        return
    yield from _tried(folder, there if there != folder else folder.parent)


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{size(free)} free"
    if free < NO_BYTES:
        return broken("free space", found, f"free space on {mount_of(folder)}")
    return (
        note("free space", found, f"free space on {mount_of(folder)}")
        if free < LITTLE_BYTES
        else ok("free space", found)
    )


def _tried(folder: Path, beside: Path) -> Iterator[Finding]:
    """Whether the file system keeps its promises, in a folder of a moment on it that is not the log's."""
    if mount_of(beside) != mount_of(folder) or not os.access(beside, os.W_OK):
        yield note("fsync", f"not tried: it needs a writable folder beside {folder}, on its file system")
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".oncelog-doctor-", dir=beside) as trial:
            yield _sync(Path(trial, "file"))
            yield _locks(Path(trial, "file"))
    except OSError as error:
        yield broken("fsync", f"a file in {beside} cannot be written and synced: {error}", "mend the file system")


def _sync(path: Path) -> Finding:
    began_s = time.monotonic()
    with path.open("wb") as file:
        file.write(b"oncelog")
        file.flush()
        os.fsync(file.fileno())
    folders.sync(path.parent)
    took_ms = round((time.monotonic() - began_s) * 1000)
    if took_ms > SLOW_SYNC_MS:
        return note("fsync", f"a file took {took_ms} ms", "a faster disk commits faster; look who else uses this one")
    return ok("fsync", f"a file took {took_ms} ms")


def _locks(path: Path) -> Finding:
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        other = subprocess.run([sys.executable, "-ISc", _TRY_LOCK, str(path)], capture_output=True, check=False)
    if other.returncode == 0:
        return broken("locks", "two processes got one lock", "keep znodes on a local disk, or in a ZooKeeper")
    return ok("locks", "one process at a time")


# The store and the log ------------------------------------------------------------------------------------------------


def _servers(place: Place) -> Iterator[Finding]:
    """Which servers of a ZooKeeper take connections."""
    if place.url.partition(":")[0] != "zk":
        return
    from oncelog.znodes.zookeeper.address import ZookeeperAddress

    for server in ZookeeperAddress.parse(place.url).servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
            yield ok(f"ZooKeeper {server}", "takes connections")
        except OSError as error:
            yield broken(
                f"ZooKeeper {server}", f"cannot be reached: {error}", "start it, or mend --znodes or the network"
            )


def _log(root: str, znodes: str | None, place: Place) -> Iterator[Finding]:
    began_s = time.monotonic()
    try:
        if not place.is_there():
            yield note("log", f"there is none at {root} yet", "oncelog topic create NAME makes one")
            return
        with runtime.open(root, znodes, create=False) as log:
            topics = plural(len(log.admin.list_topics()), "topic")
            took_ms = round((time.monotonic() - began_s) * 1000)
            yield ok("log", f"{root}: {topics}, znodes in {place}, opened in {took_ms} ms")
            yield from _time_of(log)
    except OncelogError as error:
        yield broken("log", root, str(error))


def _time_of(log: Log) -> Iterator[Finding]:
    """Whether the store was last written in the future: time-outs and retention would wait until it comes."""
    fixed = log.services.store.get_many([paths.FORMAT, paths.CLOCK, paths.COMMITS, paths.PRODUCER_IDS])
    ahead_ms = max(znode.stat.mtime_ms for znode in fixed if znode is not None) - wall_ms()
    if ahead_ms > AHEAD_MS:
        found = f"the log was written {duration(ahead_ms)} ahead of this host's clock"
        yield broken("clock of the log", found, "set the clock of this host, or of the one that wrote, by NTP")
