"""The ledgers that the sinks of this process have open, one store for each place."""

from __future__ import annotations

from oncelog import metadata
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.kept import KeptOpen

_stores: KeptOpen[ZnodeStore] = KeptOpen()


def open_ledger(place: str) -> ZnodeStore:
    """The store at a place, made if there is none; a forked child opens its own. Spark's processes never close it."""
    return _stores.get(place, lambda: metadata.open_metadata(place))


def close_ledgers() -> None:
    """Close all of them, for a program that continues without Spark. Its sinks stop working."""
    _stores.close()
