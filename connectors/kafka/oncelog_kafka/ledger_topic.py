"""The topic that keeps a command log: how oncelog makes it, and what it must be like whenever it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog.errors import StoreAccessError, UsageError
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.patience import patiently
from oncelog_kafka.ports import PartitionRequests

NEEDED: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",  # compaction would take entries out of the middle
    "message.timestamp.type": "LogAppendTime",  # the brokers' clocks age transactions, not the writers'
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Settings without which the log would lose entries, or lie about their age."""

REPLICAS: Final = 3
"""Of a topic that oncelog makes, if there are as many brokers."""

SAFE: Final[Mapping[str, str]] = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
"""Settings in addition of a topic with that many replicas: what is acknowledged is on two brokers."""


def ensure_topic(partitions: PartitionRequests, topic: str, *, create: bool, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make the topic if there is none, and look at its settings.

    Args:
        partitions: requests to its cluster.
        topic: its name.
        create: whether it may be made.
        clock: to wait by, until the brokers know a new one.

    Raises:
        UsageError: there is no such topic.
        StoreAccessError: with its settings it would lose entries.
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.
    """
    found = partitions.settings_of(topic)
    if found is None:
        if not create:
            raise UsageError("there is no such topic, so there is no metadata in it", topic=topic)
        replicas = REPLICAS if partitions.count_brokers() >= REPLICAS else 1
        partitions.create(topic, replicas, {**NEEDED, **(SAFE if replicas == REPLICAS else {})})
        found = patiently(
            clock,
            "the topic of the command log was made, and cannot be read",
            lambda: partitions.settings_of(topic) or {},
            passes=lambda settings: not settings,
            topic=topic,
        )
    wrong = {name: found.get(name) for name, value in NEEDED.items() if found.get(name) != value}
    if wrong:
        raise StoreAccessError(
            "the topic of the command log would lose entries with these settings; correct them with kafka-configs.sh",
            topic=topic,
            found=wrong,
            needed={name: NEEDED[name] for name in wrong},
        )
