"""Which micro-batches of this connector's sinks are decided, and which staged documents each consists of."""

from __future__ import annotations

from oncelog.batches.committables import receipts_ledgers

SEARCH_LEDGERS = receipts_ledgers("/indices")
