"""Which micro-batches of this connector's sinks are decided, and which rows each consists of."""

from __future__ import annotations

from oncelog.batches.committables import committable_ledgers

POSTGRES_LEDGERS = committable_ledgers("/postgres")
