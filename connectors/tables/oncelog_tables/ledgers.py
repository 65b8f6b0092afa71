"""Where the ledgers of this connector's sinks are: which micro-batches are decided, and of which files each is."""

from __future__ import annotations

from oncelog import metadata
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.kept import KeptOpen
from oncelog.spark.kit.receipts import receipts_ledgers

DELTA_LEDGERS = receipts_ledgers("/delta")
ICEBERG_LEDGERS = receipts_ledgers("/iceberg")

_stores: KeptOpen[ZnodeStore] = KeptOpen()


def open_store(place: str) -> ZnodeStore:
    """The store at a place, one for each place and process; a forked child opens its own."""
    return _stores.get(place, lambda: metadata.open_metadata(place))


def close_stores() -> None:
    """Close all stores of this process, for a program that continues without Spark. Its sinks stop working."""
    _stores.close()
