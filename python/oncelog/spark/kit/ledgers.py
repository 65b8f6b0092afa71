"""The ledgers that the sinks of this process have open, one store for each place."""

from __future__ import annotations

from oncelog import metadata
from oncelog.errors import InvalidOptionError
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.kept import KeptOpen
from oncelog.spark.kit.options import Use

_stores: KeptOpen[ZnodeStore] = KeptOpen()


def open_ledger(place: str | None) -> ZnodeStore:
    """The store at a place, made if there is none; a forked child opens its own. Spark's processes never close it.

    Raises:
        InvalidOptionError: there is no place.
    """
    if place is None:
        raise InvalidOptionError("a required option is missing", option="znodes", use=Use.FOREACH_BATCH.value)
    return _stores.get(place, lambda: metadata.open_metadata(place))


def close_ledgers() -> None:
    """Close all of them, for a program that continues without Spark. Its sinks stop working."""
    _stores.close()
