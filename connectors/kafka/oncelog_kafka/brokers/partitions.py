"""Asks for single partitions: entries of a command log are appended to partition 0 of a topic, and fetched from it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
    from kafka.protocol.consumer import FetchRequest
    from kafka.protocol.producer import ProduceRequest
    from kafka.record import MemoryRecords, MemoryRecordsBuilder

from oncelog.errors import StoreAccessError
from oncelog.znodes.clock import wall_ms
from oncelog_kafka.brokers.client import Client, answer_to, connected, name_of, named_errors
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.protocol.ports import FETCH_BYTES, Answer, Appended, Fetched, LedgerTopic, Record, RecordBatch

PARTITION = 0

_PRODUCE_MS = 10_000
_ALL_IN_SYNC = -1
_WITH_PRODUCER_ID = 2
"""The first format of records in which a batch names its producer."""

_BY_ID = 13
"""The first version of both requests that takes a topic's id; earlier ones take its name."""


class KafkaPartitions:
    """`ports.PartitionRequests` through kafka-python.

    Args:
        settings: of the client.
        client: one that is connected with them, if there is one.
    """

    def __init__(self, settings: Mapping[str, Any], client: Client | None = None) -> None:
        self._client = connected(settings) if client is None else client
        self._leaders: dict[str, LedgerTopic] = {}  # by topic

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def fetch(self, topic: str, offset: int, max_bytes: int = FETCH_BYTES) -> Fetched | Answer:
        partition = self._ask_leader(
            topic,
            lambda found: fetch_request(
                topic, found.topic_id, offset, max_bytes=max_bytes, leader_epoch=found.leader_epoch
            ),
            lambda answer: answer.partitions,
        )
        if isinstance(partition, str):
            return partition
        data = partition.records or b""
        with named_errors(), _readable(topic):
            batches = [_batch(batch, offset, data) for batch in MemoryRecords(data) if batch.next_offset > offset]
        return Fetched(self._leaders[topic].topic_id, batches, partition.high_watermark)

    def forget_leader(self, topic: str) -> None:
        self._leaders.pop(topic, None)

    def produce(self, topic: str, topic_id: str, body: bytes) -> Appended | Answer:
        partition = self._ask_leader(
            topic,
            lambda _: _produce_request(topic, topic_id, body),
            lambda answer: answer.partition_responses,
            topic_id,
        )
        if isinstance(partition, str):
            return partition
        by_id = topic_id if partition.version >= _BY_ID else None
        return Appended(by_id, partition.base_offset, partition.log_append_time_ms)

    def earliest(self, topic: str) -> int:
        partition = TopicPartition(topic, PARTITION)
        with named_errors():
            found = self._client.list_partition_offsets({partition: OffsetSpec.EARLIEST})
        return int(found[partition].offset)

    def delete_before(self, topic: str, offset: int) -> None:
        with named_errors():
            self._client.delete_records({TopicPartition(topic, PARTITION): offset})

    def describe(self, topic: str) -> LedgerTopic:
        with named_errors():
            (found,) = self._client.describe_topics([topic])
        led = [one for one in found["partitions"] if one["partition_index"] == PARTITION]
        operations = frozenset(found["authorized_operations"] or ())
        topic_id = as_kafka_writes(found["topic_id"])
        return LedgerTopic(
            answer=name_of(found["error_code"]),
            topic_id=topic_id,
            leader=led[0]["leader_id"] if led else -1,
            leader_epoch=led[0].get("leader_epoch", -1) if led else -1,
            partitions=len(found["partitions"]),
            operations=operations,
        )

    def settings_of(self, topic: str) -> Mapping[str, str]:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
        with named_errors():
            answer = self._client.describe_configs([wanted], config_filter="all")
        return {name: one["value"] for name, one in answer["topic"][topic].items()}

    def create(self, topic: str, replicas: int, settings: Mapping[str, str]) -> None:
        wanted = {"num_partitions": 1, "replication_factor": replicas, "configs": dict(settings)}
        with named_errors(), suppress(kafka_errors.TopicAlreadyExistsError):
            self._client.create_topics({topic: wanted})

    def count_brokers(self) -> int:
        with named_errors():
            return len(self._client.describe_cluster()["brokers"])

    def _ask_leader(
        self,
        topic: str,
        request: Callable[[LedgerTopic], Any],
        partitions_of: Callable[[Any], Any],
        known_id: str | None = None,
    ) -> Any:
        """What the leader says of the partition, or the name of an error. After one, the leader is looked up again.

        Args:
            topic: by its name.
            request: makes what to ask from the topic with its leader.
            partitions_of: the partitions in the answer for a topic.
            known_id: the id that it must have.
        """
        try:
            found = self._leader(topic)
            if known_id not in (None, found.topic_id):
                return "INCONSISTENT_TOPIC_ID"
            answer = answer_to(self._client, request(found), found.leader)
        except BrokerUnavailableError:
            answer = "NETWORK_EXCEPTION"
        if not isinstance(answer, str):
            (partition,) = partitions_of(answer.responses[0])
            answer = partition if partition.error_code == 0 else name_of(partition.error_code)
        if isinstance(answer, str):
            self._leaders.pop(topic, None)
        return answer

    def _leader(self, topic: str) -> LedgerTopic:
        """The topic, with the leader of the partition."""
        if topic not in self._leaders:
            found = self.describe(topic)
            if found.leader < 0:
                raise BrokerUnavailableError("the partition has no leader now", topic=topic, partition=PARTITION)
            self._leaders[topic] = found
        return self._leaders[topic]


@contextmanager
def _readable(topic: str) -> Iterator[None]:
    """Nobody may leave out what cannot be read: it may be an entry that the brokers compressed."""
    try:
        yield
    except kafka_errors.UnsupportedCodecError as problem:
        raise StoreAccessError(
            "records of the ledger's topic are compressed in a way that kafka-python cannot read here; set "
            "admin.client=java, which reads all, and compression.type=producer on the topic if oncelog's own are",
            topic=topic,
            problem=str(problem),
        ) from problem


def _batch(found: Any, offset: int, data: bytes) -> RecordBatch:
    """A batch of those in `data`, from an offset on."""
    base, end = found.base_offset, found.next_offset
    is_intact = partial(_is_intact, data, base)
    if found.magic >= _WITH_PRODUCER_ID and found.has_producer_id():
        return RecordBatch(end - max(base, offset), end, (), is_intact)
    records = [Record(one.offset, one.timestamp, one.value) for one in found if one.offset >= offset]
    return RecordBatch(len(records), end, records, is_intact)


def _is_intact(data: bytes, base_offset: int) -> bool:
    """Whether the checksum of a batch holds. It can only be computed before the batch is read."""
    return all(batch.validate_crc() for batch in MemoryRecords(data) if batch.base_offset == base_offset)


def as_kafka_writes(topic_id: str | None) -> str:
    """A topic's id as Kafka's own tools write it; empty for a topic that does not exist."""
    return urlsafe_b64encode(UUID(topic_id).bytes).decode().rstrip("=") if topic_id else ""


def uuid_of(topic_id: str) -> UUID:
    """A topic's id as Kafka's own tools write it, in the type of the protocol."""
    return UUID(bytes=urlsafe_b64decode(topic_id + "=="))


def fetch_request(
    topic: str,
    topic_id: str,
    offset: int,
    partition: int = PARTITION,
    max_bytes: int = FETCH_BYTES,
    leader_epoch: int = -1,
) -> Any:
    """What a leader has of a partition from an offset on, without waiting for more."""
    of_topic = FetchRequest.FetchTopic
    wanted = of_topic.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic(topic=topic, topic_id=uuid_of(topic_id), partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )


def _produce_request(topic: str, topic_id: str, body: bytes) -> Any:
    records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=len(body) + 1024)
    records.append(timestamp=wall_ms(), key=None, value=body)
    records.close()
    of_topic = ProduceRequest.TopicProduceData
    partition = of_topic.PartitionProduceData(index=PARTITION, records=records.buffer())
    return ProduceRequest(
        transactional_id=None,
        acks=_ALL_IN_SYNC,
        timeout_ms=_PRODUCE_MS,
        topic_data=[of_topic(name=topic, topic_id=uuid_of(topic_id), partition_data=[partition])],
    )
