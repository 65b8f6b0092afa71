"""Folders that outlive a power failure: a file system keeps a new name for sure once its folder is fsynced."""

from __future__ import annotations

import os
from pathlib import Path


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
