"""Where a test may kill a Kafka batch, in addition to the points that all batches reach (oncelog.crash_points)."""

from __future__ import annotations

from enum import StrEnum


class KafkaCrashPoint(StrEnum):
    """All points, in the order in which a batch reaches them."""

    FENCE = "kafka.fence"
    WRITTEN = "kafka.written"
    CHECKED = "kafka.checked"
    END = "kafka.end"
    ENDED = "kafka.ended"
    COMPLETE = "kafka.complete"
    LOST = "kafka.lost"
    REWRITTEN = "kafka.rewritten"
    REPLACED = "kafka.replaced"
