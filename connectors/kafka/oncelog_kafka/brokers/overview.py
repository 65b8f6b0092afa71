"""Asks a whole cluster where its partitions end and how far its groups have read, as far as this user may see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import IsolationLevel
    from kafka.admin import OffsetSpec
    from kafka.protocol.consumer import ListOffsetsRequest

from oncelog_kafka.brokers.client import answer_to, name_of, named_errors
from oncelog_kafka.brokers.topics import KafkaTopics

TopicPartition = tuple[str, int]

_ISOLATION_SINCE: Final = 2
"""The first version of ListOffsets that a reader can ask for its own end."""


class Ends(NamedTuple):
    """Where readers of a partition end: those of committed rows, and all others."""

    stable: int
    high_watermark: int


class KafkaOverview(KafkaTopics):
    """Partitions and groups of a cluster, through kafka-python."""

    def leaders(self) -> dict[TopicPartition, int]:
        """All partitions, with who leads them; below 0 if nobody does."""
        with named_errors():
            return _leaders(self._client.describe_topics())

    def leaders_of(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The same of the topics of these names that exist."""
        return _leaders(self._described(topics))

    def ends(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ends]:
        """Where partitions end, by two requests to each leader. Those whose leader does not say it are left out."""
        led: dict[int, list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            if leader >= 0:
                led.setdefault(leader, []).append(partition)
        found: dict[TopicPartition, Ends] = {}
        for leader, partitions in led.items():
            # In this order: if the last stable offset is lower then, something holds it, and no row came in between.
            marks = self._latest(leader, partitions, IsolationLevel.READ_UNCOMMITTED)
            stable = self._latest(leader, partitions, IsolationLevel.READ_COMMITTED)
            found |= {one: Ends(stable[one], max(marks[one], stable[one])) for one in stable.keys() & marks.keys()}
        return found

    def groups(self) -> list[str]:
        """The groups that commit offsets."""
        with named_errors():
            listed = self._client.list_groups()
        return sorted({one["group_id"] for one in listed if one.get("group_type") != "share"})

    def _latest(self, leader: int, partitions: Iterable[TopicPartition], isolation: Any) -> dict[TopicPartition, int]:
        answer = answer_to(self._client, _latest_request(partitions, isolation), leader)
        if isinstance(answer, str):
            return {}
        return {
            (topic.name, one.partition_index): int(one.offset)
            for topic in answer.topics
            for one in topic.partitions
            if name_of(one.error_code) == "NONE"
        }


def _leaders(described: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    return {
        (topic["name"], one["partition_index"]): -1 if one["error_code"] else one["leader_id"]
        for topic in described
        for one in topic["partitions"]
    }


def _latest_request(partitions: Iterable[TopicPartition], isolation: Any) -> Any:
    of_topic = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[str, list[Any]] = {}
    for topic, number in partitions:
        wanted = of_topic.ListOffsetsPartition(partition_index=number, timestamp=OffsetSpec.LATEST)
        topics.setdefault(topic, []).append(wanted)
    return ListOffsetsRequest(
        isolation_level=isolation.value,
        topics=[of_topic(name=name, partitions=some) for name, some in topics.items()],
        min_version=_ISOLATION_SINCE,
    )
