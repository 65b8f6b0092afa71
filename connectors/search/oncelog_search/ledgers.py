"""Which micro-batches of this connector's sinks are decided, and which staged documents each consists of."""

from __future__ import annotations

from oncelog.batches.committables import committable_ledgers

SEARCH_LEDGERS = committable_ledgers("/indices")
