"""Where a test may kill a Kafka batch, in addition to the points that all batches reach (oncelog.crash_points)."""

from __future__ import annotations

from enum import StrEnum


class KafkaCrashPoint(StrEnum):
    """Those of a batch, in the order in which it reaches them."""

    FENCE = "kafka.fence"
    WRITTEN = "kafka.written"
    CHECKED = "kafka.checked"
    END = "kafka.end"
    ENDED = "kafka.ended"
    COMPLETE = "kafka.complete"
    LOST = "kafka.lost"
    REWRITTEN = "kafka.rewritten"
    REPLACED = "kafka.replaced"


class RepairCrashPoint(StrEnum):
    """Those of ``oncelog kafka txn repair``, in its order."""

    SAVE = "kafka.repair.save"
    SAVED = "kafka.repair.saved"
    END = "kafka.repair.end"
    ENDED = "kafka.repair.ended"


class RebuildCrashPoint(StrEnum):
    """Those of ``oncelog kafka ledger rebuild``, in its order."""

    WRITE = "kafka.rebuild.write"
    WRITTEN = "kafka.rebuild.written"


class RestoreCrashPoint(StrEnum):
    """Those of ``oncelog kafka txn restore``, in its order."""

    FENCED = "kafka.restore.fenced"
    WRITTEN = "kafka.restore.written"
    COMMIT = "kafka.restore.commit"
    COMMITTED = "kafka.restore.committed"
