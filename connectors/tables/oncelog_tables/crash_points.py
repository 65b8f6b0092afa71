"""Where a test may kill a batch on its way to a table, in addition to the points that all batches reach."""

from __future__ import annotations

from enum import StrEnum


class TablesCrashPoint(StrEnum):
    """All points, in the order in which a batch reaches them."""

    WRITTEN = "tables.written"
    DURABLE = "tables.durable"
    PREPARED = "tables.prepared"
    COMMIT = "tables.commit"
    COMMITTED = "tables.committed"
