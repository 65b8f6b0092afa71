"""The mark in the folder of the data files: the id of the log that they belong to.

Where the znodes are elsewhere (a ZooKeeper), a mistyped path would write committed data into a folder that no reader
looks at, or miss all that is there. Hence the folder says whose it is, and the log's ``/format`` that it says so.

Crash points: between mark and ``/format``, which leaves a marked folder; the next `ensure` finishes it.
"""

from __future__ import annotations

import time

from oncelog.errors import FileWriteError, UsageError
from oncelog.ports import FileStore

NAME = "cluster-id"
_BYTES = 64
"""More than a mark has."""

_LOOKS, _PAUSE_S = 50, 0.02
"""A mark that is unfinished for longer is what a crash left."""


def ensure(files: FileStore, cluster_id: str, path: str, *, is_marked: bool) -> None:
    """See that the folder is this log's; mark it unless it was marked before.

    Args:
        files: of the folder.
        cluster_id: of the log.
        path: of the folder, for the errors.
        is_marked: whether the log's folder bears its mark, by what the log remembers.

    Raises:
        UsageError: it is another log's folder, or none of this log's.
        FileWriteError, FileUnavailableError: by the file system.
    """
    found = _read(files)
    if not found and not is_marked:
        found = _write(files, cluster_id)
    if found == cluster_id:
        return
    if found:
        raise UsageError(
            "the folder holds the data of another log than the znode store: mend the path, or the store's address",
            path=path,
            cluster_id=found,
            cluster_id_in_store=cluster_id,
        )
    raise UsageError(
        "there is no log here: the znode store has one, and its data files are in a folder with its mark; give the "
        "path of that folder, as this host sees it",
        path=path,
        missing=NAME,
        cluster_id=cluster_id,
    )


def is_there(files: FileStore) -> bool:
    """Whether the folder is some log's."""
    return bool(_read(files))


def _read(files: FileStore) -> str | None:
    """What the mark says: None where there is none, nothing where it is not finished."""
    try:
        text = files.read(NAME, 0, _BYTES).decode("ascii", errors="replace")
    except FileNotFoundError:
        return None
    return text.strip() if text.endswith("\n") else ""


def _write(files: FileStore, cluster_id: str) -> str:
    """Write the mark, also in the place of one that a crash left unfinished.

    Returns:
        what it says then: a finished one stays, whoever was faster to write it.
    """
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
    """The same as `_read`; waits for one who is writing it."""
    found = _read(files)
    for _ in range(_LOOKS):
        if found != "":
            break
        time.sleep(_PAUSE_S)
        found = _read(files)
    return found
