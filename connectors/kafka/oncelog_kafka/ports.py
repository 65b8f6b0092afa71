"""What the sink asks of the Kafka brokers, and what it is told. Types only.

`Brokers` is the driver's view: each call has an outcome, whatever passes meanwhile. `Requests` is the cluster's: each
call is asked once, and its answers are given as they came. patience.py makes the first out of the second; brokers.py
has the requests of kafka-python, control.py those of Java's client, testing/brokers.py those of a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from oncelog.ports import Clock
from oncelog.znodes.replicated.port import Entry
from oncelog_kafka.participants import Listed, Participant, Transaction


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset of a consumer group."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Unstable:
    """A group has offsets in a transaction that is not decided yet."""


Offsets = dict[tuple[str, int], CommittedOffset | Unstable]
"""Of one group, by topic and partition; what was never committed is left out."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Entries of a partition.

    Attributes:
        topic_id: of the topic that has it.
        entries: from the offset that was asked for, as far as an answer reaches.
        high_watermark: the offset behind the last record that all replicas in sync have.
    """

    topic_id: str
    entries: Sequence[Entry]
    high_watermark: int


Answer = str
"""Kafka's name of an error code, ``NONE`` for success. What was not answered is a ``NETWORK_EXCEPTION``."""


class Brokers(Protocol):
    """One cluster, as the sink's driver, its commands and whoever finishes a round see it.

    Every request is idempotent: an answer that is lost, or says that a coordinator moved or loads, is asked for anew
    until patience ends.

    Raises:
        BrokerUnavailableError: patience ended.
        BrokerAccessError: the brokers refuse it.
    """

    @property
    def clock(self) -> Clock:
        """The time by which this process waits for the brokers."""

    def commit(self, participants: Sequence[Participant]) -> list[Answer]:
        """Send EndTxn(commit) of each participant once, in this order; gives the answers as they came."""

    def fence(self, transactional_ids: Iterable[str], timeout_ms: int) -> None:
        """Abort what is open under these ids and fence their producers, by InitProducerId.

        Never for an id whose outcome is not recorded: this is how a prepared transaction is lost.
        """

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """What the coordinators say of these ids; those they do not know are left out."""

    def list_ids(self, states: Sequence[str] = ()) -> list[Listed]:
        """All ids that the cluster's coordinators know, or those in these states."""

    def offsets(self, groups: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, Offsets]:
        """The stable committed offsets of groups, of these partitions."""

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic."""

    def broker_setting(self, name: str) -> int | None:
        """The least value that any broker has for a number; None if this client may not read settings."""

    def tries(self, what: str, **fields: object) -> Iterator[None]:
        """Turns for a caller that sends requests again by its own rules, with pauses between them.

        Args:
            what: could not be done, when patience ends.
            fields: of the error then.
        """


class Requests(Protocol):
    """One cluster, asked once.

    Raises:
        BrokerUnavailableError: of calls that give no answers by name, which pass as a `NETWORK_EXCEPTION` does.
        BrokerAccessError: the brokers refuse it.
    """

    def end(self, participants: Sequence[Participant]) -> list[Answer]:
        """EndTxn(commit) of each, in this order."""

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        """InitProducerId of each, in this order."""

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        """DescribeTransactions of each, in this order."""

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        """ListTransactions of every broker."""

    def offsets(self, groups: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, Offsets | Answer]:
        """OffsetFetch of each group, stable offsets only."""

    def partitions_of(self, topic: str) -> int | None:
        """Metadata of a topic."""

    def broker_setting(self, name: str) -> int | None:
        """DescribeConfigs of every broker."""

    def close(self) -> None:
        """Close the connections."""


class PartitionRequests(Protocol):
    """Partition 0 of topics, asked once. Raises as `Requests`."""

    def fetch(self, topic: str, offset: int) -> Fetched | Answer:
        """Fetch from its leader, without waiting for more than there is."""

    def produce(self, topic: str, body: bytes) -> Answer:
        """Have its leader append a record, acknowledged by all replicas in sync."""

    def earliest(self, topic: str) -> int:
        """The offset of its first record, or where that would be."""

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records before an offset."""

    def close(self) -> None:
        """Close the connections."""
