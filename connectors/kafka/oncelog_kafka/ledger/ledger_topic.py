"""The topic that keeps a command log: how oncelog creates it, and what it must be like whenever it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oncelog.errors import StoreAccessError
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog.znodes.replicated.snapshot import PART_BYTES
from oncelog_kafka.errors import BrokerAccessError
from oncelog_kafka.patience import patiently, refusal
from oncelog_kafka.protocol.entries import first_records, foreign_topic
from oncelog_kafka.protocol.ports import LedgerTopic, PartitionRequests

NEEDED: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",  # compaction would take entries out of the middle
    "message.timestamp.type": "LogAppendTime",  # the brokers' clocks age transactions, not the writers'
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Settings without which the log would lose entries, or lie about their age."""

LEAST_MESSAGE_BYTES: Final = PART_BYTES + 10_000
"""The least ``max.message.bytes`` of the topic: for a part of a snapshot, and for any step."""

MESSAGE_BYTES: Final = 1_048_588
"""The ``max.message.bytes`` of a topic that oncelog creates: Kafka's default, whatever the cluster's is."""

REPLICAS: Final = 3
"""Of a topic that oncelog creates, if there are as many brokers."""

SAFE: Final[Mapping[str, str]] = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
"""Settings in addition of a topic with that many replicas: what is acknowledged is on two brokers."""

RIGHTS: Final = ("DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
"""ACL operations on the topic that its users need. DELETE is for DeleteRecords, which keeps the log short."""

RIGHTS_TO_READ: Final = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ")
"""Operations that somebody needs who only reads the log."""

_ABSENT = "UNKNOWN_TOPIC_OR_PARTITION"


def id_of(
    partitions: PartitionRequests, topic: str, clock: Clock = SYSTEM_CLOCK, rights: Sequence[str] = RIGHTS
) -> str | None:
    """The id of the topic; None if there is none. Checks what this user may do with it, and its settings.

    Args:
        partitions: requests to its cluster.
        topic: its name.
        clock: to wait by, until brokers answer.
        rights: that this user needs.

    Raises:
        StoreAccessError: with its settings it would lose entries, or take none.
        ForeignTopicError: it belongs to another program.
        BrokerAccessError: this user lacks rights.
        BrokerUnavailableError: the brokers do not answer.
    """
    found = patiently(clock, "the ledger's topic could not be described", lambda: partitions.describe(topic))
    if found.answer == _ABSENT:
        return None
    _check_rights(found, topic, rights)
    _check_settings(partitions, topic, is_written="WRITE" in rights)
    return found.topic_id


def _check_settings(partitions: PartitionRequests, topic: str, *, is_written: bool) -> None:
    settings = partitions.settings_of(topic)
    wrong = {name: value for name, value in NEEDED.items() if settings.get(name) != value}
    if wrong:
        _refuse_other_data(partitions, topic)
        raise StoreAccessError(
            "the ledger's topic would lose entries with these settings; correct them with kafka-configs.sh",
            topic=topic,
            found={name: settings.get(name) for name in wrong},
            needed=wrong,
        )
    most_bytes = int(settings.get("max.message.bytes", MESSAGE_BYTES))
    if is_written and most_bytes < LEAST_MESSAGE_BYTES:
        raise StoreAccessError(
            "the ledger's topic takes no entries of the size that a ledger needs; raise max.message.bytes of the topic "
            "with kafka-configs.sh",
            topic=topic,
            found=most_bytes,
            needed=LEAST_MESSAGE_BYTES,
        )


def _refuse_other_data(partitions: PartitionRequests, topic: str) -> None:
    """Refuse a topic with records of which none is a ledger's entry: its settings are right for what it is for."""
    first = first_records(partitions, topic)
    if first.foreign and not first.entries:
        raise foreign_topic(topic)


def create(partitions: PartitionRequests, topic: str, clock: Clock = SYSTEM_CLOCK) -> None:
    """Create the topic, and wait until the brokers know it.

    Raises:
        BrokerAccessError: this user may not create it.
        BrokerUnavailableError: the brokers do not answer.
    """
    replicas = REPLICAS if partitions.count_brokers() >= REPLICAS else 1
    settings = {**NEEDED, "max.message.bytes": str(MESSAGE_BYTES), **(SAFE if replicas == REPLICAS else {})}
    try:
        partitions.create(topic, replicas, settings)
    except BrokerAccessError as problem:
        raise BrokerAccessError(
            "the ledger's topic does not exist, and this user cannot create it: create it with one partition and these "
            "settings, or allow the operation Create on it",
            topic=topic,
            settings=settings,
            problem=problem.fields.get("problem"),
        ) from problem
    patiently(
        clock,
        "the ledger's topic was created, and cannot be read",
        lambda: partitions.describe(topic),
        passes=lambda found: found.answer == _ABSENT or found.leader < 0,
        topic=topic,
    )


def _check_rights(found: LedgerTopic, topic: str, rights: Sequence[str]) -> None:
    if found.answer == "TOPIC_AUTHORIZATION_FAILED":
        missing = list(rights)
    elif found.answer not in {"NONE", "LEADER_NOT_AVAILABLE"}:
        raise refusal(found.answer, "the ledger's topic cannot be used", topic=topic)
    else:
        missing = [right for right in rights if found.operations and right not in found.operations]
    if missing:
        raise BrokerAccessError(
            "this user may not do with the ledger's topic what a ledger needs; allow these operations on the topic",
            topic=topic,
            missing=missing,
        )
