"""Where a test may kill a batch on its way to PostgreSQL, in addition to the points that all batches reach."""

from __future__ import annotations

from enum import StrEnum


class PostgresCrashPoint(StrEnum):
    """All points, in the order in which a batch reaches them; PIECE only where tasks prepare transactions."""

    STAGED = "postgres.staged"
    COPIED = "postgres.copied"
    WRITTEN = "postgres.written"
    PREPARED = "postgres.prepared"
    COMMIT = "postgres.commit"
    PIECE = "postgres.piece"
    COMMITTED = "postgres.committed"
    DROPPED = "postgres.dropped"
