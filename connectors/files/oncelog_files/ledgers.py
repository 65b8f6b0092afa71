"""Which micro-batches of this connector's sinks are decided, and which files each consists of."""

from __future__ import annotations

from oncelog.spark.kit.receipts import receipts_ledgers

FILES_LEDGERS = receipts_ledgers("/folders")
