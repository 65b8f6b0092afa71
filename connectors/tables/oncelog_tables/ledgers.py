"""Which micro-batches of this connector's sinks are decided, and of which files each is."""

from __future__ import annotations

from oncelog.batches.committables import committable_ledgers

DELTA_LEDGERS = committable_ledgers("/delta")
ICEBERG_LEDGERS = committable_ledgers("/iceberg")
