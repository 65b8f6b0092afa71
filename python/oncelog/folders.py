"""Folders that outlive a power failure, and paths that a system takes.

A file system keeps a new name for sure once its folder is fsynced.
"""

from __future__ import annotations

import os
from pathlib import Path

from oncelog.errors import UsageError


def make(folder: Path) -> None:
    """Create a folder and those above it, as far as they are missing, durably.

    Raises:
        OSError: it cannot be created.
    """
    if not folder.is_dir():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: the file system does not confirm it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def usable(path: str) -> str:
    """A path that the system takes: without NUL, and in characters that it can write.

    Raises:
        UsageError: it is none.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise UsageError("no file can have this path", path=path)
