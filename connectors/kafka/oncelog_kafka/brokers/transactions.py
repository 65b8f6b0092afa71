"""A transaction, as a producer writes one: each request is sent alone, and may be sent again if its answer is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka.protocol.metadata import CoordinatorType
    from kafka.protocol.producer import (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        TxnOffsetCommitRequest,
    )
    from kafka.record.default_records import DefaultRecordBatchBuilder

from oncelog_kafka.brokers.client import name_of
from oncelog_kafka.brokers.producers import Row
from oncelog_kafka.brokers.requests import KafkaRequests
from oncelog_kafka.protocol.ports import Answer, CommittedOffset

BATCH_BYTES = 512 << 10
"""Of a batch before it is compressed: below what topics take by default (max.message.bytes). A row that is larger has a
batch of its own."""

_MAGIC = 2
_GZIP = 1
_SEQUENCES = 2**31


class Identity(NamedTuple):
    """How a producer identifies itself in its requests."""

    transactional_id: str
    producer_id: int
    epoch: int


class KafkaTransactions:
    """Transactions through kafka-python, in the protocol of transaction version 1, which all brokers speak.

    Args:
        requests: the way to the cluster.
    """

    def __init__(self, requests: KafkaRequests) -> None:
        self._requests = requests

    def init(self, transactional_id: str, timeout_ms: int) -> Identity | Answer:
        """Fence older producers of this id, and end what they left open."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        answer = self._coordinator(transactional_id, request)
        if isinstance(answer, str) or answer.error_code:
            return _answer(answer)
        return Identity(transactional_id, answer.producer_id, answer.producer_epoch)

    def add_partition(self, who: Identity, place: tuple[str, int]) -> Answer:
        """Tell the coordinator that rows of this partition follow."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who.transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=[topic],
            max_version=3,
        )
        answer = self._coordinator(who.transactional_id, request)
        if isinstance(answer, str):
            return answer
        (one,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        return name_of(one.partition_error_code)

    def add_offsets(self, who: Identity, group: str) -> Answer:
        """Tell the coordinator that offsets of this group follow."""
        request = AddOffsetsToTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            group_id=group,
            max_version=3,
        )
        return _answer(self._coordinator(who.transactional_id, request))

    def stage(self, who: Identity, group: str, place: tuple[str, int], offset: CommittedOffset) -> Answer:
        """Stage an offset, which is committed with the transaction."""
        of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        staged = of_topic.TxnOffsetCommitRequestPartition(
            partition_index=place[1],
            committed_offset=offset.offset,
            committed_leader_epoch=-1,
            committed_metadata=offset.metadata,
        )
        request = TxnOffsetCommitRequest(
            transactional_id=who.transactional_id,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[of_topic(name=place[0], partitions=[staged])],
            max_version=4,
        )
        answer = self._coordinator(group, request, CoordinatorType.GROUP)
        if isinstance(answer, str):
            return answer
        (one,) = answer.topics[0].partitions
        return name_of(one.error_code)

    def end(self, who: Identity, *, is_commit: bool) -> Answer:
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=is_commit,
            max_version=4,
        )
        return _answer(self._coordinator(who.transactional_id, request))

    def _coordinator(self, key: str, request: Any, kind: Any = CoordinatorType.TRANSACTION) -> Any:
        (answer,) = self._requests.ask_each([(key, request)], kind)
        return answer


def _answer(answer: Any) -> Answer:
    return answer if isinstance(answer, str) else name_of(answer.error_code)


def batches(who: Identity, rows: Iterable[Row]) -> Iterator[tuple[bytes, int]]:
    """Rows as batches of a transaction, with the number of rows in each."""
    sequence = count = 0
    builder = _builder(who, sequence)
    for row in rows:
        if count and not _appended(builder, count, row):
            yield bytes(builder.build()), count
            sequence, count = (sequence + count) % _SEQUENCES, 0
            builder = _builder(who, sequence)
        if not count:
            _appended(builder, count, row)
        count += 1
    if count:
        yield bytes(builder.build()), count


def _builder(who: Identity, sequence: int) -> Any:
    return DefaultRecordBatchBuilder(_MAGIC, _GZIP, True, who.producer_id, who.epoch, sequence, BATCH_BYTES)


def _appended(builder: Any, at: int, row: Row) -> bool:
    """Whether it fits; the first one always does."""
    return builder.append(at, row.timestamp_ms, row.key, row.value, row.headers) is not None
