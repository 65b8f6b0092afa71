"""Which records of a topic are entries of a command log, and which are *foreign*: written by another program.

Others write to a ledger's topic by mistake: a copy of all topics of a cluster, or a producer with a wrong topic. A
record is foreign if a producer with an id wrote it (an idempotent or a transactional one), if a coordinator did (the
marker of a transaction), or if it does not begin as an entry does (`command.is_entry`).

Assumptions: oncelog appends nothing but entries, with a producer that has no id, and a batch of records whose checksum
holds is what its producer sent. Hence an entry is never taken for a foreign record. Whoever leaves records out has to
verify their checksum first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog.znodes.replicated.command import is_entry
from oncelog.znodes.replicated.port import Entry
from oncelog_kafka.errors import BrokerUnavailableError, ForeignTopicError
from oncelog_kafka.protocol.ports import PartitionRequests, RecordBatch

FIRST_BYTES: Final = 1 << 20
"""How much of a topic is read to see whether it is a ledger's."""

_NOT_READABLE = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED"})


def entries_in(batch: RecordBatch) -> list[Entry]:
    """The entries of a command log in a batch."""
    return [
        Entry(one.offset, one.time_ms, one.value)
        for one in batch.records
        if one.value is not None and is_entry(one.value)
    ]


def foreign_topic(topic: str) -> ForeignTopicError:
    """The error for a topic that has foreign records only."""
    return ForeignTopicError(
        "the topic has records, and none of them is an entry of a ledger: it belongs to another program, or another "
        "program copied a ledger into it; name a topic that does not exist yet, and copy ledgers only with "
        "`oncelog kafka ledger copy`",
        topic=topic,
    )


class FirstRecords(NamedTuple):
    """How many of the first records of a topic are entries, and how many are foreign."""

    entries: int
    foreign: int


def first_records(partitions: PartitionRequests, topic: str) -> FirstRecords:
    """The first records in partition 0; none if this user may not read them.

    Raises:
        BrokerUnavailableError: they cannot be read now.
    """
    found = partitions.fetch(topic, partitions.earliest(topic), FIRST_BYTES)
    if isinstance(found, str):
        if found in _NOT_READABLE:
            return FirstRecords(0, 0)
        raise BrokerUnavailableError("the brokers do not let a topic be read now", topic=topic, answer=found)
    entries = sum(len(entries_in(batch)) for batch in found.batches)
    return FirstRecords(entries, sum(batch.count for batch in found.batches) - entries)


def keeps_ledger(partitions: PartitionRequests, topic: str) -> bool:
    """Whether entries are among the first records of a topic.

    The topic must have one partition, as those have that oncelog creates, and this user must be allowed to read it.

    Raises:
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.
    """
    found = partitions.describe(topic)
    if found.answer != "NONE" or found.partitions != 1 or (found.operations and "READ" not in found.operations):
        return False
    return first_records(partitions, topic).entries > 0
