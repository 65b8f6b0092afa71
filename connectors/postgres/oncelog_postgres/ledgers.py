"""Which micro-batches of this connector's sinks are decided, and which rows each consists of."""

from __future__ import annotations

from oncelog.batches.committables import receipts_ledgers

POSTGRES_LEDGERS = receipts_ledgers("/postgres")
