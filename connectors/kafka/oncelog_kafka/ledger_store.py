"""The metadata store in a Kafka topic: ``znodes="kafka://host:9092,host:9092/topic"``.

The topic is made when a log or a ledger is created there. URLs carry no credentials, so this is for clusters that ask
for none.
"""

from __future__ import annotations

import re
from functools import partial

from oncelog.errors import InvalidOptionError
from oncelog.ports import ZnodeStore
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.schemes import Scheme
from oncelog_kafka.brokers import KafkaPartitions
from oncelog_kafka.ledger_topic import ensure_topic
from oncelog_kafka.partition_log import PartitionLog

_EXAMPLE = "kafka://h1:9092,h2:9092/oncelog-ledger"
_URL = re.compile(r"kafka://(?P<servers>[^/@?\s]+:\d+(?:,[^/@?\s,]+:\d+)*)/(?P<topic>[a-zA-Z0-9._-]{1,249})")


def opened(servers: str, topic: str, *, create: bool = False) -> PartitionLog:
    """The command log in a topic.

    Args:
        servers: host:port, separated by commas.
        topic: its name.
        create: whether the topic may be made.

    Raises:
        UsageError: there is no such topic. StoreAccessError: with its settings it would lose entries.
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.
    """
    requests = KafkaPartitions({"bootstrap_servers": servers.split(",")})
    try:
        ensure_topic(requests, topic, create=create)
    except BaseException:
        requests.close()
        raise
    return PartitionLog(requests, topic)


def _store(url: str, create: bool) -> ZnodeStore:
    servers, topic = _parts(url)
    return ReplicatedZnodeStore(partial(opened, servers, topic, create=create))


def _normalised(url: str, root: str) -> str:
    servers, topic = _parts(url)
    return f"kafka://{servers}/{topic}"


def _parts(url: str) -> tuple[str, str]:
    found = _URL.fullmatch(url)
    if found is None:
        raise InvalidOptionError("not the URL of a topic that keeps metadata", expected=_EXAMPLE)
    return found["servers"], found["topic"]


SCHEME = Scheme(open=_store, normalised=_normalised)
