"""A producer that sends one request at a time and shows the answer as it came, stale and wrong requests too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.brokers.client import name_of
from oncelog_kafka.protocol.ports import CommittedOffset
from simulation.kafka.transactions import Identity, TopicPartition
from tests.support.harness.waiting import until

NODE = 1
"""The only broker of the harness."""


class RawProducer:
    """What `testing.brokers.Cluster` offers producers, of a real cluster of one broker.

    Args:
        requests: the way to it.
    """

    def __init__(self, requests: KafkaRequests) -> None:
        self._requests = requests

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[str, Identity | None]:
        answer = self._of_coordinator(
            transactional_id,
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                max_version=5,
            ),
        )
        name = name_of(answer.error_code)
        return name, Identity(transactional_id, answer.producer_id, answer.producer_epoch) if name == "NONE" else None

    def add_partitions(self, who: Identity, partitions: Iterable[TopicPartition]) -> str:
        wanted = list(partitions)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        answer = self._of_coordinator(
            who.transactional_id,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=who.transactional_id,
                v3_and_below_producer_id=who.producer_id,
                v3_and_below_producer_epoch=who.epoch,
                v3_and_below_topics=[topic(name=name, partitions=[number]) for name, number in wanted],
                max_version=3,
            ),
        )
        return _only(
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        )

    def add_offsets(self, who: Identity, group: str) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            group_id=group,
        )
        return name_of(self._of_coordinator(who.transactional_id, request).error_code)

    def produce(
        self,
        who: Identity,
        partition: TopicPartition,
        values: Sequence[bytes],
        sequence: int,
        *,
        version: int,
        timestamp_ms: int | None = None,
    ) -> str:
        topic, number = partition
        versions = {"min_version": 12, "max_version": 12} if version >= 2 else {"max_version": 11}
        of_topic = ProduceRequest.TopicProduceData
        data = of_topic.PartitionProduceData(index=number, records=_batch(who, values, sequence, timestamp_ms))
        request = ProduceRequest(
            transactional_id=who.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[of_topic(name=topic, partition_data=[data])],
            **versions,
        )

        def ask() -> str | None:
            answer = self._requests._client._manager.run(self._send, request)
            name = _only(one.error_code for topic in answer.responses for one in topic.partition_responses)
            return None if name == "NOT_LEADER_FOR_PARTITION" else name  # a new topic has no leader for a moment

        return str(until(ask))

    def stage(
        self, who: Identity, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, version: int
    ) -> str:
        versions = {"min_version": 5, "max_version": 5} if version >= 2 else {"max_version": 4}
        of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_topic.TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=one.offset,
                        committed_leader_epoch=-1,
                        committed_metadata=one.metadata,
                    )
                ],
            )
            for (topic, number), one in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=who.transactional_id,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=topics,
            **versions,
        )
        answer = self._of_coordinator(group, request, CoordinatorType.GROUP)
        return _only(one.error_code for topic in answer.topics for one in topic.partitions)

    def end(self, who: Identity, *, is_commit: bool, version: int) -> tuple[str, Identity | None]:
        versions = {"min_version": 5, "max_version": 5} if version >= 2 else {"max_version": 4}
        request = EndTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=is_commit,
            **versions,
        )
        answer = self._of_coordinator(who.transactional_id, request)
        name = name_of(answer.error_code)
        if name != "NONE" or version < 2:
            return name, None
        return name, Identity(who.transactional_id, answer.producer_id, answer.producer_epoch)

    def _of_coordinator(self, key: str, request: Any, kind: Any = CoordinatorType.TRANSACTION) -> Any:
        """The answer; a fresh broker has no coordinator until one is asked for."""

        def ask() -> Any:
            (answer,) = self._requests.ask_each([(key, request)], kind)
            return None if isinstance(answer, str) else answer

        return until(ask)

    async def _send(self, request: Any) -> Any:
        return await self._requests._client._manager.send(request, node_id=NODE)


def _batch(who: Identity, values: Sequence[bytes], sequence: int, timestamp_ms: int | None) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 1, who.producer_id, who.epoch, sequence, 1 << 16)
    for at, value in enumerate(values):
        assert builder.append(at, timestamp_ms, None, value, [])
    return bytes(builder.build())


def _only(error_codes: Iterable[int]) -> str:
    (name,) = {name_of(code) for code in error_codes}
    return name
