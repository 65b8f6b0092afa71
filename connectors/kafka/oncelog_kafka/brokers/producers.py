"""Asks partitions for the transactions that they have open, and writes markers and rows to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec
    from kafka.protocol.admin import DescribeProducersRequest
    from kafka.protocol.producer import ProduceRequest, WriteTxnMarkersRequest
    from kafka.record import MemoryRecords

from oncelog_kafka.brokers.client import answer_to, connected, name_of, named_errors
from oncelog_kafka.brokers.partitions import as_kafka_writes, fetch_request
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.protocol.hanging import NotAsked, OpenInPartition
from oncelog_kafka.protocol.ports import Answer

ASKED_AT_ONCE = 1_000
"""How many partitions one request describes: a partition of many producers has a long answer."""

IDS_AT_ONCE = 1_000

_COMMIT_MARKER = 1

_APPEND_MS = 30_000
_ALL_IN_SYNC = -1
_OF_ANY_TRANSACTION_VERSION = 11
"""The last version of ProduceRequest that adds no partition to a transaction."""


class Row(NamedTuple):
    """A record of a partition, with its producer."""

    producer_id: int
    epoch: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    producer_id: int
    offset: int
    is_commit: bool


class _Partition(NamedTuple):
    """Who leads it, and its topic's id."""

    leader: int
    topic_id: str


class KafkaProducers:
    """What partitions know about producers, through kafka-python."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._client = connected(settings)
        self._partitions: dict[tuple[str, int], _Partition] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def open_transactions(
        self, partitions: Collection[tuple[str, int]] | None = None
    ) -> tuple[list[OpenInPartition], list[NotAsked]]:
        """What is open now, by DescribeProducers: one request for many partitions of a broker.

        Args:
            partitions: only these; None for all that this user may see.

        Returns:
            And the partitions that could not be asked.
        """
        self._look_up(None if partitions is None else {topic for topic, _ in partitions})
        found: list[OpenInPartition] = []
        not_asked: list[NotAsked] = []
        by_leader: dict[int, list[tuple[str, int]]] = {}
        for one in sorted(self._partitions.keys() if partitions is None else partitions):
            if one not in self._partitions:
                not_asked.append(NotAsked(*one, "UNKNOWN_TOPIC_OR_PARTITION"))
            elif self._partitions[one].leader < 0:
                not_asked.append(NotAsked(*one, "LEADER_NOT_AVAILABLE"))
            else:
                by_leader.setdefault(self._partitions[one].leader, []).append(one)
        for leader, led in by_leader.items():
            for start in range(0, len(led), ASKED_AT_ONCE):
                some = led[start : start + ASKED_AT_ONCE]
                answer = answer_to(self._client, describe_request(some), leader)
                if isinstance(answer, str):
                    not_asked += [NotAsked(*one, answer) for one in some]
                    continue
                for name, one in _described(answer):
                    if one.error_code:
                        not_asked.append(NotAsked(name, one.partition_index, name_of(one.error_code)))
                    found += _open_ones(name, one)
        return found, not_asked

    def ids_of(self, producer_ids: Iterable[int]) -> list[str]:
        """The transactional ids that the coordinators know of these producers."""
        names: set[str] = set()
        wanted = sorted(set(producer_ids))
        for start in range(0, len(wanted), IDS_AT_ONCE):
            some = wanted[start : start + IDS_AT_ONCE]
            with named_errors():
                answers = self._client.list_transactions(producer_id_filters=some)
            names |= {one.transactional_id for listed in answers.values() for one in listed}
        return sorted(names)

    def write_marker(self, found: OpenInPartition, *, is_commit: bool) -> Answer:
        """End a transaction in one partition, by WriteTxnMarkers, as Kafka's ``Admin.abortTransaction`` does.

        The leader refuses it if the producer has written with a newer epoch, or a newer coordinator has ended a
        transaction of it. Where nothing is open, a marker changes nothing.
        """
        place = found.topic, found.partition
        answer = answer_to(self._client, _marker_request(found, is_commit=is_commit), self._partition(place).leader)
        if not isinstance(answer, str):
            (one,) = answer.markers[0].topics[0].partitions
            answer = name_of(one.error_code)
        if answer != "NONE":
            self._partitions.pop(place, None)
        return answer

    def append(self, transactional_id: str, place: tuple[str, int], batch: bytes) -> int | Answer:
        """Append a batch to a transaction that has the partition; the offset of its first row.

        The leader takes a batch that is sent again only once.
        """
        of_topic = ProduceRequest.TopicProduceData
        data = of_topic.PartitionProduceData(index=place[1], records=batch)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=_ALL_IN_SYNC,
            timeout_ms=_APPEND_MS,
            topic_data=[of_topic(name=place[0], partition_data=[data])],
            max_version=_OF_ANY_TRANSACTION_VERSION,
        )
        answer = answer_to(self._client, request, self._partition(place).leader)
        if not isinstance(answer, str):
            (one,) = answer.responses[0].partition_responses
            if one.error_code == 0:
                return int(one.base_offset)
            answer = name_of(one.error_code)
        self._partitions.pop(place, None)
        return str(answer)

    def cluster_id(self) -> str:
        """Of the cluster."""
        with named_errors():
            return str(self._client.describe_cluster()["cluster_id"])

    def topic_id(self, place: tuple[str, int]) -> str | None:
        """The id of the partition's topic, as Kafka's own tools write it; None if there is no such partition."""
        self._look_up({place[0]})
        return self._partitions[place].topic_id if place in self._partitions else None

    def read(self, topic: str, partition: int, offset: int) -> Iterator[Row | Marker]:
        """Rows and markers from an offset to the present end of the partition, committed or not; page by page.

        It begins at the first record that is left, if retention has removed others.

        Raises:
            BrokerUnavailableError, BrokerAccessError: they cannot be read.
        """
        offset = max(offset, self._earliest(topic, partition))
        end = None
        while end is None or offset < end:
            page = self._page(topic, partition, offset)
            end = page.high_watermark if end is None else end
            records, after = MemoryRecords(page.records or b""), offset
            while batch := records.next_batch():
                for record in batch:
                    if record.offset >= offset:
                        yield _entry(batch, record)
                after = batch.next_offset
            if after == offset:
                return
            offset = after

    def _page(self, topic: str, partition: int, offset: int) -> Any:
        fields = {"topic": topic, "partition": partition}
        leader, topic_id = self._partition((topic, partition))
        answer = answer_to(self._client, fetch_request(topic, topic_id, offset, partition), leader)
        page = None if isinstance(answer, str) else answer.responses[0].partitions[0]
        name = answer if page is None else name_of(page.error_code)
        if name == "TOPIC_AUTHORIZATION_FAILED":
            raise BrokerAccessError("to read the rows, this user needs the right Read on the topic", **fields)
        if name != "NONE":
            raise BrokerUnavailableError("rows could not be read; try again", answer=name, **fields)
        return page

    def _earliest(self, topic: str, partition: int) -> int:
        wanted = TopicPartition(topic, partition)
        with named_errors():
            return int(self._client.list_partition_offsets({wanted: OffsetSpec.EARLIEST})[wanted].offset)

    def _partition(self, one: tuple[str, int]) -> _Partition:
        if one not in self._partitions:
            self._look_up({one[0]})
        if one not in self._partitions or self._partitions[one].leader < 0:
            raise BrokerUnavailableError("the partition has no leader now", topic=one[0], partition=one[1])
        return self._partitions[one]

    def _look_up(self, topics: set[str] | None) -> None:
        with named_errors():
            described = self._client.describe_topics(None if topics is None else sorted(topics))
        self._partitions = {
            (topic["name"], one["partition_index"]): _Partition(one["leader_id"], as_kafka_writes(topic["topic_id"]))
            for topic in described
            for one in topic["partitions"]
        }


# Wire -----------------------------------------------------------------------------------------------------------------


def describe_request(partitions: Iterable[tuple[str, int]]) -> Any:
    """What the leader of these partitions knows about their producers."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    of_topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[of_topic(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
    )


def _described(answer: Any) -> Iterator[tuple[str, Any]]:
    return ((topic.name, one) for topic in answer.topics for one in topic.partitions)


def _open_ones(topic: str, partition: Any) -> Iterator[OpenInPartition]:
    for one in partition.active_producers:
        if one.current_txn_start_offset >= 0:
            yield OpenInPartition(
                topic,
                partition.partition_index,
                one.producer_id,
                one.producer_epoch,
                one.current_txn_start_offset,
                one.last_timestamp,
                one.coordinator_epoch,
            )


def _marker_request(found: OpenInPartition, *, is_commit: bool) -> Any:
    of_marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = of_marker.WritableTxnMarkerTopic(name=found.topic, partition_indexes=[found.partition])
    # Without a transaction version: the marker of a transaction of version 2 would need the epoch after its own.
    marker = of_marker(
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        transaction_result=is_commit,
        topics=[topic],
        coordinator_epoch=found.coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def _entry(batch: Any, record: Any) -> Row | Marker:
    if batch.is_control_batch:
        kind = int.from_bytes(bytes(record.key)[2:4], "big")
        return Marker(batch.producer_id, record.offset, kind == _COMMIT_MARKER)
    return Row(
        batch.producer_id,
        batch.producer_epoch,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )
