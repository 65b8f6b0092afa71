"""Where a test may kill a batch on its way into a folder, in addition to the points that all batches reach."""

from __future__ import annotations

from enum import StrEnum


class FilesCrashPoint(StrEnum):
    """All points, in the order in which a batch reaches them."""

    WRITTEN = "files.written"
    LISTED = "files.listed"
    SHOW = "files.show"
    SHOWN = "files.shown"
    PUBLISHED = "files.published"
    REMOVED = "files.removed"
