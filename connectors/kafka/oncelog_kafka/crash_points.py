"""Where a test may kill a batch on its way to Kafka, beside the places that all batches pass (oncelog.crash_points)."""

from __future__ import annotations

from enum import StrEnum


class KafkaCrashPoint(StrEnum):
    """Every named place, in the order in which a batch passes them."""

    FENCE = "kafka.fence"
    WRITTEN = "kafka.written"
    CHECKED = "kafka.checked"
    END = "kafka.end"
    ENDED = "kafka.ended"
    COMPLETE = "kafka.complete"
    LOST = "kafka.lost"
    REWRITTEN = "kafka.rewritten"
    REPLACED = "kafka.replaced"
