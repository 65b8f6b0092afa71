"""Opens metadata stores in Kafka topics: a sink's ledger, and ``znodes="kafka://host:9092,host:9092/topic"``.

A sink reaches its ledger's topic with its own settings. URLs carry no credentials, so they are for clusters that need
none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from oncelog import metadata
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.limits import RECENT_MS
from oncelog.ports import ZnodeStore
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.schemes import Scheme
from oncelog_kafka.brokers import KafkaPartitions
from oncelog_kafka.control.partitions import ControlPartitions
from oncelog_kafka.ledger import ledger_topic
from oncelog_kafka.ledger.partition_log import PartitionLog
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.options.sink_options import topic_name
from oncelog_kafka.protocol.ports import PartitionRequests

Settings = Mapping[str, Any] | JavaClient
"""Of the driver's client, from `admin_settings.derive`."""

_EXAMPLE = "kafka://h1:9092,h2:9092/oncelog-ledger"
_URL = re.compile(r"kafka://(?P<servers>[^/@?\s]+:\d+(?:,[^/@?\s,]+:\d+)*)/(?P<topic>[^/]+)")


def store(settings: Settings, topic: str, *, create: bool, rights: Sequence[str] = ledger_topic.RIGHTS) -> ZnodeStore:
    """The store in a topic.

    Args:
        settings: with which its cluster is reached.
        topic: its name.
        create: whether it may be created. If it is deleted later, it is not created again.
        rights: that this user needs on the topic.

    Raises:
        UsageError: there is no such topic. StoreAccessError: with its settings it would lose entries.
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.
    """
    open_store = partial(ReplicatedZnodeStore, partial(opened, settings, topic, rights), recent_ms=RECENT_MS)
    try:
        return open_store()
    except MissingTopicError:
        if not create:
            raise
    requests = requests_of(settings)
    try:
        ledger_topic.create(requests, topic)
    finally:
        requests.close()
    return open_store()


def open_ledger(
    settings: Settings, topic: str, *, create: bool = True, rights: Sequence[str] = ledger_topic.RIGHTS
) -> ZnodeStore:
    """The store in a topic, as `metadata.open_metadata` opens those that a text names. Raises as `store`."""
    found = store(settings, topic, create=create, rights=rights)
    return metadata.checked_store(found, topic, None, create=create)


def foreign_records(store: ZnodeStore) -> int:
    """How many records of other programs are in the topic of a store, as far as it was read; 0 for other stores."""
    return store.foreign if isinstance(store, ReplicatedZnodeStore) else 0


def opened(settings: Settings, topic: str, rights: Sequence[str] = ledger_topic.RIGHTS) -> PartitionLog:
    """The command log in a topic that exists. Raises as `store`."""
    requests = requests_of(settings)
    try:
        topic_id = ledger_topic.id_of(requests, topic, rights=rights)
        if topic_id is None:
            raise MissingTopicError("there is no such topic, so there is no metadata in it", topic=topic)
    except BaseException:
        requests.close()
        raise
    return PartitionLog(requests, topic, topic_id, is_read_only="WRITE" not in rights)


class MissingTopicError(UsageError):
    """A store without its topic."""


def requests_of(settings: Settings) -> PartitionRequests:
    return ControlPartitions(settings) if isinstance(settings, JavaClient) else KafkaPartitions(settings)


def _store_at(url: str, create: bool) -> ZnodeStore:
    servers, topic = _parts(url)
    return store({"bootstrap_servers": servers.split(",")}, topic, create=create)


def _normalised(url: str, root: str) -> str:
    servers, topic = _parts(url)
    return f"kafka://{servers}/{topic}"


def _parts(url: str) -> tuple[str, str]:
    found = _URL.fullmatch(url)
    try:
        if found is not None:
            return found["servers"], topic_name(found["topic"])
    except ValueError:
        pass
    raise InvalidOptionError("not the URL of a topic that keeps metadata", expected=_EXAMPLE)


SCHEME = Scheme(open=_store_at, normalised=_normalised)
