"""Where a test may kill a batch on its way into an index, in addition to the points that all batches reach."""

from __future__ import annotations

from enum import StrEnum


class SearchCrashPoint(StrEnum):
    """All points, in the order in which a batch reaches them."""

    WRITTEN = "search.written"
    LISTED = "search.listed"
    SEND = "search.send"
    SENT = "search.sent"
    PUBLISHED = "search.published"
    REMOVED = "search.removed"
