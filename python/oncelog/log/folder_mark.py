"""The mark in the folder of the data files: a file with the id of the log that they belong to.

If the znodes are elsewhere (in ZooKeeper), a mistyped path would write committed data into a folder that no reader
reads, or miss all data. So the folder has the id of its log, and the log's ``/format`` says that its folder is marked.

Crash points: between writing the mark and ``/format``. The folder is marked then, and the next `ensure` does the rest.
"""

from __future__ import annotations

import time

from oncelog.errors import FileWriteError, UsageError
from oncelog.ports import FileStore

NAME = "cluster-id"
_BYTES = 64
"""More than the length of a mark."""

_LOOKS, _PAUSE_S = 50, 0.02
"""How often, and how long in between, to wait for another writer. After that a crash left the mark unfinished."""


def ensure(files: FileStore, cluster_id: str, path: str, *, is_marked: bool) -> None:
    """Check that the folder belongs to this log; mark it if the log has not marked its folder yet.

    Args:
        path: of the folder, for the errors.
        is_marked: whether the log's ``/format`` says that its folder is marked.

    Raises:
        UsageError: the folder belongs to another log, or is not this log's.
        FileWriteError, FileUnavailableError: the mark cannot be written or read.
    """
    found = _read(files)
    if not found and not is_marked:
        found = _write(files, cluster_id)
    if found == cluster_id:
        return
    if found:
        raise UsageError(
            "the folder and the znode store belong to different logs; correct the path, or the store's address",
            path=path,
            cluster_id=found,
            cluster_id_in_store=cluster_id,
        )
    raise UsageError(
        "there is no log here: the znode store has one, but its data files are in another folder; give the path of "
        "that folder on this host",
        path=path,
        missing=NAME,
        cluster_id=cluster_id,
    )


def is_there(files: FileStore) -> bool:
    """Whether the folder belongs to a log."""
    return bool(_read(files))


def _read(files: FileStore) -> str | None:
    """The content of the mark; None if there is no mark, empty if it is unfinished."""
    try:
        text = files.read(NAME, 0, _BYTES).decode("ascii", errors="replace")
    except FileNotFoundError:
        return None
    return text.strip() if text.endswith("\n") else ""


def _write(files: FileStore, cluster_id: str) -> str:
    """Write the mark, or replace one that a crash left unfinished. Returns its content; a finished mark is kept."""
    try:
        output = files.create(NAME)
    except FileWriteError:
        found = _read_finished(files)
        if found:
            return found
        files.delete(NAME)
        output = files.create(NAME)
    output.write(f"{cluster_id}\n".encode())
    output.finish()
    return cluster_id


def _read_finished(files: FileStore) -> str | None:
    """Like `_read`, but wait for another process that may be writing the mark."""
    found = _read(files)
    for _ in range(_LOOKS):
        if found != "":
            break
        time.sleep(_PAUSE_S)
        found = _read(files)
    return found
