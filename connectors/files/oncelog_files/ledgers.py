"""Which micro-batches of this connector's sinks are decided, and which files each consists of."""

from __future__ import annotations

from oncelog.batches.committables import committable_ledgers

FILES_LEDGERS = committable_ledgers("/folders")
