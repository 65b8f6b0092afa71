"""The interface between the sink and the Kafka brokers. Types only.

`Requests` sends each request once and returns the answers as they come. `Brokers` repeats requests until there is a
final answer; the driver uses it, and patience.py implements it with `Requests`. brokers/ implements `Requests` with
kafka-python, control/ with Java's client, and `simulation.kafka` with a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from oncelog.ports import Clock
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Listed, Participant, ProducerIdAndEpoch, Transaction

Answer = str
"""Kafka's name of an error code, ``NONE`` for success, ``NETWORK_EXCEPTION`` if there was no answer."""


FETCH_BYTES: Final = 16 << 20
"""How much one answer of a partition's leader brings at most."""


class Ended(NamedTuple):
    """The answer to a commit.

    Attributes:
        answer: as it came.
        following: the producer of the id's next transaction; None if the commit failed, and at transaction version 1.
    """

    answer: Answer
    following: ProducerIdAndEpoch | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset of a consumer group."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Unstable:
    """A group has offsets in a transaction that is not decided yet."""


Offsets = dict[tuple[str, int], CommittedOffset | Unstable]
"""The offsets of one group by topic and partition; partitions without a committed offset are left out."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the leader of a partition knows about it.

    Attributes:
        opened: the offset at which the open transaction of each producer begins there.
        log_start: the first offset that is not deleted; 0 if only `opened` was asked for.
    """

    opened: Mapping[ProducerIdAndEpoch, int]
    log_start: int = 0


PartitionStates = dict[tuple[str, int], PartitionState | Answer]


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """What the brokers say of a topic to this client.

    Attributes:
        answer: ``NONE``, or why they say nothing else, such as ``UNKNOWN_TOPIC_OR_PARTITION``.
        topic_id: of this topic, as Kafka writes ids; another one of the same name has another id.
        leader: of partition 0; -1 for none now.
        leader_epoch: how often partition 0 has had a new leader; -1 if the brokers do not say.
        partitions: how many it has.
        operations: that the user may do with the topic; empty if the brokers do not say.
    """

    answer: Answer
    topic_id: str
    leader: int
    leader_epoch: int
    partitions: int
    operations: frozenset[str]


class Record(NamedTuple):
    """A record; one without a value has None."""

    offset: int
    time_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that a producer sent together, or the marker that ends a transaction.

    Attributes:
        count: of its records from the offset on that was asked for; a batch is fetched whole.
        end: the offset after its last record.
        records: these records; none if a producer with an id wrote them.
        is_intact: whether the batch's checksum holds.
    """

    count: int
    end: int
    records: Sequence[Record]
    is_intact: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of a partition.

    Attributes:
        topic_id: of the topic that has it.
        batches: from the one with the offset that was asked for, as far as an answer reaches.
        high_watermark: the offset behind the last record that all replicas in sync have.
    """

    topic_id: str
    batches: Sequence[RecordBatch]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Appended:
    """A record that all replicas in sync have.

    Attributes:
        topic_id: of the topic that has it; None if the leader was asked by name, which may be another topic's by now.
        offset: of the record.
        time_ms: that the leader gave it; -1 if the topic keeps those of its producers.
    """

    topic_id: str | None
    offset: int
    time_ms: int


class Brokers(Protocol):
    """One cluster, as seen by the sink's driver, the commands and whoever finishes a round.

    Every request is idempotent. If the answer is lost, or says that a coordinator moved or is loading, the request is
    repeated until the patience ends.

    Raises:
        BrokerUnavailableError: the patience ended.
        BrokerAccessError: the brokers refuse the request.
    """

    @property
    def clock(self) -> Clock:
        """Measures how long this process waits for the brokers."""

    def commit(self, participants: Sequence[Participant]) -> list[Ended]:
        """Send EndTxn(commit) for each participant once, in this order, and return the answers as they come."""

    def fence(self, transactional_ids: Iterable[str], timeout_ms: int) -> None:
        """Abort what is open under these ids and fence their producers, by InitProducerId.

        Never call this for an id whose outcome is not recorded: it would abort a prepared transaction.
        """

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """What the coordinators say about these ids; unknown ids are left out."""

    def states(self, rows: Extents, others: Iterable[tuple[str, int]] = ()) -> PartitionStates:
        """What the leaders of partitions know now.

        Args:
            rows: in these partitions, whose topics must still have these ids.
            others: only their open transactions are asked for.

        Returns:
            Instead of a state, the answer of a leader that refuses to give it, such as ``TOPIC_AUTHORIZATION_FAILED``,
            ``UNKNOWN_TOPIC_ID`` if the topic is gone, or ``OFFSET_OUT_OF_RANGE`` if the log ends before the rows do.
        """

    def list_ids(self, states: Sequence[str] = ()) -> list[Listed]:
        """All ids that the cluster's coordinators know, or only those in these states."""

    def offsets(self, groups: Mapping[str, Iterable[tuple[str, int]] | None]) -> dict[str, Offsets]:
        """The stable committed offsets of these partitions, by group; None for all that the group has."""

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic."""

    def keeps_ledger(self, topic: str) -> bool:
        """Whether entries of a ledger are in a topic, as far as this client may read it."""

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        """All settings of a topic; empty if this client may not read them."""

    def cluster_id(self) -> str:
        """The id of the cluster, which never changes."""

    def broker_setting(self, name: str) -> int | None:
        """The lowest value of a numeric setting over all brokers; None if this client may not read settings."""

    def tries(self, what: str, **fields: object) -> Iterator[None]:
        """Yield once for each try, for a caller that decides itself what to repeat; see `patience.turns`."""


class Requests(Protocol):
    """One cluster; each request is sent once.

    Raises:
        BrokerUnavailableError: there was no answer; calls that return `Answer`s return ``NETWORK_EXCEPTION`` instead.
        BrokerAccessError: the brokers refuse the request.
    """

    def end(self, participants: Sequence[Participant]) -> list[Ended]:
        """EndTxn(commit) for each, in this order."""

    def init(self, transactional_ids: Sequence[str], timeout_ms: int) -> list[Answer]:
        """InitProducerId for each, in this order."""

    def describe(self, transactional_ids: Sequence[str]) -> list[Transaction | Answer]:
        """DescribeTransactions for each, in this order."""

    def states(self, rows: Extents, others: Sequence[tuple[str, int]]) -> PartitionStates:
        """DescribeProducers for all these partitions, and Fetch by topic id for those of `rows`."""

    def list_ids(self, states: Sequence[str]) -> list[Listed]:
        """ListTransactions at every broker."""

    def offsets(self, groups: Mapping[str, Sequence[tuple[str, int]] | None]) -> dict[str, Offsets | Answer]:
        """OffsetFetch for each group, stable offsets only; None for all partitions of the group."""

    def partitions_of(self, topic: str) -> int | None:
        """Metadata for a topic."""

    def keeps_ledger(self, topic: str) -> bool:
        """See `entries.keeps_ledger`."""

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        """DescribeConfigs for a topic."""

    def cluster_id(self) -> str:
        """DescribeCluster, or Metadata."""

    def broker_setting(self, name: str) -> int | None:
        """DescribeConfigs for every broker."""

    def close(self) -> None:
        """Close the connections."""


class PartitionRequests(Protocol):
    """Partition 0 of topics, asked once. Raises as `Requests`.

    Requests go to the leader that is known, with its epoch: a broker that was deposed since, or that was not elected
    yet, refuses them.
    """

    def fetch(self, topic: str, offset: int, max_bytes: int = FETCH_BYTES) -> Fetched | Answer:
        """Fetch from its leader, without waiting for more than there is; at least one batch."""

    def forget_leader(self, topic: str) -> None:
        """Look up the leader again for the next request. One that was deposed may not know it, and answer as before."""

    def produce(self, topic: str, topic_id: str, body: bytes) -> Appended | Answer:
        """Have its leader append a record, acknowledged by all replicas in sync.

        Returns:
            ``INCONSISTENT_TOPIC_ID`` if the topic of this name is another one by now.
        """

    def earliest(self, topic: str) -> int:
        """The offset of its first record, or where that would be."""

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records before an offset."""

    def describe(self, topic: str) -> LedgerTopic:
        """Metadata of a topic, which is not created by that."""

    def settings_of(self, topic: str) -> Mapping[str, str]:
        """The settings of a topic that exists."""

    def create(self, topic: str, replicas: int, settings: Mapping[str, str]) -> None:
        """Create a topic of one partition, unless there is one of that name. It has no leader yet."""

    def count_brokers(self) -> int:
        """How many brokers the cluster has."""

    def close(self) -> None:
        """Close the connections."""
