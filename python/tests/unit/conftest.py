"""What unit tests of several packages share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file and folder that is fsynced, in order."""
    paths: list[Path] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return paths
