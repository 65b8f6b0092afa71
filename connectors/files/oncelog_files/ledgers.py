"""Which micro-batches of this connector's sinks are decided, and which files each consists of."""

from __future__ import annotations

from oncelog.batches.committables import receipts_ledgers

FILES_LEDGERS = receipts_ledgers("/folders")
