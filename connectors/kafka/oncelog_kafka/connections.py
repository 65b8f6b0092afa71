"""The open ledgers and broker connections of this process, one for each place, shared by its short-lived sinks.

Sinks are pickled, connections are not. A forked child opens its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from oncelog import metadata
from oncelog.ports import ZnodeStore
from oncelog_kafka.admin_settings import JavaClient
from oncelog_kafka.brokers import Brokers

_stores: dict[tuple[int, str], ZnodeStore] = {}
_brokers: dict[tuple[int, str], Brokers] = {}


def open_store(place: str) -> ZnodeStore:
    """The store of a ledger, created if there is none. Spark's processes never close it."""
    key = (os.getpid(), place)
    if key not in _stores:
        _stores[key] = metadata.open_metadata(place)
    return _stores[key]


def open_brokers(settings: Mapping[str, Any] | JavaClient) -> Brokers:
    """A connection to a cluster.

    Raises:
        BrokerUnavailableError, BrokerAccessError: no broker answers, or the brokers refuse this client.
    """
    told = astuple(settings) if isinstance(settings, JavaClient) else sorted(settings.items())
    key = (os.getpid(), repr(told))
    if key not in _brokers:
        _brokers[key] = Brokers(settings)
    return _brokers[key]


def close_connections() -> None:
    """Close all connections of this process, for a program that continues without Spark. Its sinks stop working."""
    while _brokers:
        _brokers.popitem()[1].close()
    while _stores:
        _stores.popitem()[1].close()
