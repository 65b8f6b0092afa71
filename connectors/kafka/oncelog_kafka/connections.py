"""The open ledgers and broker connections of this process, one for each place, shared by its short-lived sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from oncelog import metadata
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.kept import KeptOpen
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.ledger import ledger_store, ledger_topic
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.options.sink_options import LedgerPlace, SinkOptions

_stores: KeptOpen[ZnodeStore] = KeptOpen()
_brokers: KeptOpen[Brokers] = KeptOpen()


def open_store(options: SinkOptions) -> ZnodeStore:
    """The store of a sink's ledger, created if there is none. Spark's processes never close it."""
    return _kept(options.ledger_place, create=True)


def open_ledger_to_read(place: LedgerPlace) -> ZnodeStore:
    """The store of the sinks' ledger, for somebody who only reads it and may have no right to do more.

    Raises:
        UsageError: there is none.
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.
    """
    try:
        return _kept(place, create=False)
    except InvalidOptionError:
        raise
    except UsageError as problem:
        raise UsageError(
            "there is no ledger of a sink here; give a read of whole batches the same ledgerTopic or znodes as the "
            "sinks, and start one of them first",
            **({"ledgerTopic": place.topic} if place.znodes is None else {"znodes": place.znodes}),
            problem=str(problem),
        ) from problem


def _kept(place: LedgerPlace, *, create: bool) -> ZnodeStore:
    key = (create, place.znodes or f"{_told(place.admin)} {place.topic}")
    return _stores.get(key, lambda: _opened(place, create=create), is_usable)


def is_usable(store: ZnodeStore) -> bool:
    """Whether an open store still works. If its topic was deleted, it has to be opened again."""
    return not (isinstance(store, ReplicatedZnodeStore) and store.is_broken)


def _opened(place: LedgerPlace, *, create: bool) -> ZnodeStore:
    if place.znodes is not None:
        return metadata.open_metadata(place.znodes, create=create)
    rights = ledger_topic.RIGHTS if create else ledger_topic.RIGHTS_TO_READ
    return ledger_store.open_ledger(place.admin, place.topic, create=create, rights=rights)


def open_brokers(settings: Mapping[str, Any] | JavaClient) -> Brokers:
    """A connection to a cluster.

    Raises:
        BrokerUnavailableError, BrokerAccessError: no broker answers, or the brokers refuse this client.
    """
    return _brokers.get(_told(settings), lambda: Brokers(settings))


def _told(settings: Mapping[str, Any] | JavaClient) -> str:
    return repr(astuple(settings) if isinstance(settings, JavaClient) else sorted(settings.items()))


def close_connections() -> None:
    """Close all connections of this process, for a program that continues without Spark. Its sinks stop working."""
    _brokers.close()
    _stores.close()
