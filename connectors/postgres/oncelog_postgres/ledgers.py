"""Where the ledgers of this connector's sinks are: which micro-batches are decided, and which rows each consists of."""

from __future__ import annotations

import os

from oncelog import metadata
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.receipts import receipts_ledgers

POSTGRES_LEDGERS = receipts_ledgers("/postgres")

_stores: dict[tuple[int, str], ZnodeStore] = {}


def open_store(place: str) -> ZnodeStore:
    """The store at a place, one for each place and process; a forked child opens its own."""
    key = os.getpid(), place
    if key not in _stores:
        _stores[key] = metadata.open_metadata(place)
    return _stores[key]


def close_stores() -> None:
    """Close all stores of this process, for a program that continues without Spark. Its sinks stop working."""
    while _stores:
        _stores.popitem()[1].close()
