"""Which micro-batches of this connector's sinks are decided, and of which files each is."""

from __future__ import annotations

from oncelog.batches.committables import receipts_ledgers

DELTA_LEDGERS = receipts_ledgers("/delta")
ICEBERG_LEDGERS = receipts_ledgers("/iceberg")
