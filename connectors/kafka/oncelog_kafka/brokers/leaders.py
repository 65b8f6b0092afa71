"""Asks the leaders of partitions what they know: which transactions are open there, and whether written rows are there.

All leaders are asked at the same time, with two requests to each. Fetch names topics by their ids, and a leader refuses
an id that it does not know. Hence no request asks for metadata, except to find leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import errors as kafka_errors
    from kafka.protocol.consumer import FetchRequest

from oncelog_kafka.brokers.client import Client, name_of, named_errors, passing_name, sent
from oncelog_kafka.brokers.partitions import uuid_of
from oncelog_kafka.brokers.producers import ASKED_AT_ONCE, describe_request
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import ProducerIdAndEpoch
from oncelog_kafka.protocol.ports import Answer, PartitionState, PartitionStates

TopicPartition = tuple[str, int]

_WITH_ISOLATION: Final = 4
"""The first version of FetchRequest that has an isolation level."""

_BY_NAME: Final = 12
"""The last version of FetchRequest that names topics by their names."""

_NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic whose producer did not know its id."""


class _Sent(NamedTuple):
    """A request, and how to read the answer for each of its partitions."""

    partitions: Collection[TopicPartition]
    future: Any
    read: Callable[[Any], Iterator[tuple[TopicPartition, Any]]]


class Leaders:
    """The leaders of a cluster's partitions. They are remembered until one of them refuses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._leaders: dict[TopicPartition, int] = {}

    def states(self, rows: Extents, others: Iterable[TopicPartition]) -> PartitionStates:
        """See `ports.Requests`."""
        wanted = sorted({(one.topic, one.partition) for one in rows} | set(others))
        with named_errors():
            found: PartitionStates = self._client._manager.run(self._states, rows, wanted)
        return found

    async def _states(self, rows: Extents, wanted: Collection[TopicPartition]) -> PartitionStates:
        found: PartitionStates = {**await self._find_leaders(wanted)}
        opened, fetched = self._send(rows, [one for one in wanted if one not in found])
        starts = await self._answers(fetched)
        for partition, producers in (await self._answers(opened)).items():
            start = starts.get(partition, 0)
            found[partition] = _state(producers, start)
            if isinstance(found[partition], str):
                self._leaders.pop(partition, None)
        return found

    async def _find_leaders(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, Answer]:
        """Look up the leaders that are not known. Returns why some of them were not found."""
        unknown = [one for one in wanted if one not in self._leaders]
        if not unknown:
            return {}
        names = sorted({topic for topic, _ in unknown})
        try:
            metadata = await self._client._get_cluster_metadata(names)
        except kafka_errors.KafkaError as problem:
            return dict.fromkeys(unknown, passing_name(problem))
        answers = {topic["name"]: name_of(topic["error_code"]) for topic in metadata["topics"]}
        for topic in metadata["topics"]:
            for one in topic["partitions"]:
                if one["leader_id"] >= 0:
                    self._leaders[topic["name"], one["partition_index"]] = one["leader_id"]
        return {one: _no_leader(answers.get(one[0], "NONE")) for one in unknown if one not in self._leaders}

    def _send(self, rows: Extents, asked: Iterable[TopicPartition]) -> tuple[list[_Sent], list[_Sent]]:
        """Ask all leaders: for their producers, and for the rows."""
        led: dict[int, list[TopicPartition]] = {}
        for one in asked:
            led.setdefault(self._leaders[one], []).append(one)
        ends = {(one.topic, one.partition): (one.topic_id, extent.last + 1) for one, extent in rows.items()}
        opened, fetched = [], []
        for leader, partitions in led.items():
            for at in range(0, len(partitions), ASKED_AT_ONCE):
                some = partitions[at : at + ASKED_AT_ONCE]
                opened.append(_Sent(some, sent(self._client, describe_request(some), leader), _opened))
                written = {one: ends[one] for one in some if one in ends}
                if written:
                    future = sent(self._client, _fetch_request(written), leader)
                    fetched.append(_Sent(tuple(written), future, _reads_starts(written)))
        return opened, fetched

    async def _answers(self, requests: Iterable[_Sent]) -> dict[TopicPartition, Any]:
        found: dict[TopicPartition, Any] = {}
        for one in requests:
            try:
                found |= dict(one.read(await one.future))
            except kafka_errors.KafkaError as problem:
                found |= dict.fromkeys(one.partitions, passing_name(problem))
        return found


def _state(producers: Any, start: int | Answer) -> PartitionState | Answer:
    if isinstance(producers, str):
        return producers
    return start if isinstance(start, str) else PartitionState(producers, start)


def _no_leader(answer: Answer) -> Answer:
    return "LEADER_NOT_AVAILABLE" if answer == "NONE" else answer


# Wire -----------------------------------------------------------------------------------------------------------------


def _opened(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.topics:
        for one in topic.partitions:
            starts = {
                ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch): producer.current_txn_start_offset
                for producer in one.active_producers
                if producer.current_txn_start_offset >= 0
            }
            yield (topic.name, one.partition_index), name_of(one.error_code) if one.error_code else starts


def _reads_starts(written: Mapping[TopicPartition, tuple[str, int]]) -> Any:
    names = {uuid_of(topic_id): topic for (topic, _), (topic_id, _) in written.items()}

    def starts(answer: Any) -> Iterator[tuple[TopicPartition, int | Answer]]:
        if answer.error_code:
            yield from ((one, name_of(answer.error_code)) for one in written)
        for topic in answer.responses:
            name = topic.topic or names[topic.topic_id]
            for one in topic.partitions:
                start = name_of(one.error_code) if one.error_code else one.log_start_offset
                yield (name, one.partition_index), start

    return starts


def _fetch_request(written: Mapping[TopicPartition, tuple[str, int]]) -> Any:
    """Ask for what committed readers find after these rows: nothing, as long as the transactions of the rows are open.

    Args:
        written: the topic's id, and the offset after the last row.
    """
    of_topic = FetchRequest.FetchTopic
    topics: dict[tuple[str, str], list[Any]] = {}
    for (topic, number), (topic_id, end) in written.items():
        wanted = of_topic.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=end, log_start_offset=-1, partition_max_bytes=1
        )
        topics.setdefault((topic, topic_id), []).append(wanted)
    is_known = all(topic_id != _NO_TOPIC_ID for _, topic_id in topics)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic(topic=name, topic_id=uuid_of(one), partitions=some) for (name, one), some in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_WITH_ISOLATION,
        **({} if is_known else {"max_version": _BY_NAME}),
    )
