"""Asks the leaders of partitions for open transactions, and writes markers (KIP-664), through kafka-python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import TopicPartition
    from kafka.protocol.producer import WriteTxnMarkersRequest

from oncelog_kafka.brokers.client import answer_to, connected, name_of, named_errors
from oncelog_kafka.patience import refusal
from oncelog_kafka.ports import OpenInPartition

PARTITIONS_AT_ONCE = 1_000
"""How many partitions one call asks for, of as many leaders as there are."""

_NONE_OPEN = -1


class KafkaProducers:
    """The producers that the leaders of partitions know, and the transactional ids that coordinators know of them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._client = connected(settings)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def open_transactions(self, partitions: Iterable[tuple[str, int]] | None = None) -> list[OpenInPartition]:
        """The transactions that are open in these partitions, or in all that this user may see.

        Raises:
            BrokerUnavailableError, BrokerAccessError: not all leaders answered.
        """
        asked = sorted(self._all() if partitions is None else partitions)
        found: list[OpenInPartition] = []
        for start in range(0, len(asked), PARTITIONS_AT_ONCE):
            some = [TopicPartition(*one) for one in asked[start : start + PARTITIONS_AT_ONCE]]
            with named_errors():
                answer = self._client.describe_producers(some)
            found += (one for place, state in answer.items() for one in _open_in(place, state))
        return sorted(found, key=lambda one: (one.topic, one.partition, one.start_offset))

    def ids_of(self, producer_ids: Sequence[int]) -> dict[int, str]:
        """The transactional ids of producers, as far as coordinators know them."""
        if not producer_ids:
            return {}
        with named_errors():
            answers = self._client.list_transactions(producer_id_filters=producer_ids)
        return {one.producer_id: one.transactional_id for listed in answers.values() for one in listed}

    def mark(self, one: OpenInPartition, *, is_commit: bool) -> None:
        """End a transaction in one partition, as its coordinator would.

        Raises:
            BrokerAccessError: the leader refuses it; it takes the right to alter the cluster.
            BrokerUnavailableError: there is no leader, or no answer.
        """
        marker = WriteTxnMarkersRequest.WritableTxnMarker
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=one.producer_id,
                    producer_epoch=one.epoch,
                    transaction_result=is_commit,
                    topics=[marker.WritableTxnMarkerTopic(name=one.topic, partition_indexes=[one.partition])],
                    coordinator_epoch=max(one.coordinator_epoch, 0),
                )
            ]
        )
        place = TopicPartition(one.topic, one.partition)
        with named_errors():
            (leader,) = self._client._manager.run(self._client._async_get_leader_for_partitions, [place])
        answer = answer_to(self._client, request, leader)
        name = answer if isinstance(answer, str) else _only_answer(answer)
        if name != "NONE":
            raise refusal(name, "the leader of a partition did not end its transaction", partition=one.place)

    def _all(self) -> Iterator[tuple[str, int]]:
        with named_errors():
            described = self._client.describe_topics()
        for topic in described:
            for one in topic["partitions"]:
                yield topic["name"], one["partition_index"]


def _open_in(place: Any, state: Any) -> Iterator[OpenInPartition]:
    for one in state.active_producers:
        if one.current_transaction_start_offset != _NONE_OPEN:
            yield OpenInPartition(
                place.topic,
                place.partition,
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.current_transaction_start_offset,
                one.last_timestamp,
            )


def _only_answer(answer: Any) -> str:
    codes = [one.error_code for marker in answer.markers for topic in marker.topics for one in topic.partitions]
    return name_of(codes[0])
