"""Asks the brokers for topics, with the offsets of their partitions, through kafka-python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import IsolationLevel, TopicPartition
    from kafka.admin import OffsetSpec

from oncelog.checkpoints.places import Extent, TopicExtent
from oncelog_kafka.brokers.client import connected, name_of, named_errors
from oncelog_kafka.brokers.partitions import as_kafka_writes
from oncelog_kafka.patience import refusal

_MISSING = {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"}


class KafkaTopics:
    """The topics of a cluster, as `checkpoints.places.Place` describes them."""

    cluster_id = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._client = connected(settings)
        servers = settings["bootstrap_servers"]
        self.name = f"the cluster {servers if isinstance(servers, str) else ','.join(servers)}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def topics(self, names: Iterable[str]) -> dict[str, TopicExtent]:
        """The topics of these names that exist, and that this user may see."""
        return {one["name"]: self._extent(one) for one in self._described(names)}

    def committed(self, groups: Iterable[str]) -> dict[str, dict[tuple[str, int], int]]:
        """The committed offsets of groups, by topic and partition. A group that nobody knows has none."""
        wanted = sorted(groups)
        with named_errors():
            found = self._client.list_group_offsets(wanted) if wanted else {}
        return {
            group: {(place.topic, place.partition): one.offset for place, one in offsets.items() if one.offset >= 0}
            for group, offsets in found.items()
        }

    def _described(self, names: Iterable[str]) -> list[Mapping[str, Any]]:
        """The topics of these names that exist, as kafka-python describes them."""
        wanted = sorted(names)
        with named_errors():
            described = self._client.describe_topics(wanted) if wanted else []
        return [one for one in described if _exists(one)]

    def _extent(self, described: Mapping[str, Any]) -> TopicExtent:
        name = described["name"]
        partitions = [TopicPartition(name, one["partition_index"]) for one in described["partitions"]]
        earliest, latest = self._ends(partitions, OffsetSpec.EARLIEST), self._ends(partitions, OffsetSpec.LATEST)
        stable = self._ends(partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
        extents = {one.partition: Extent(earliest[one], stable[one], latest[one]) for one in partitions}
        return TopicExtent(as_kafka_writes(described["topic_id"]) or None, extents)

    def _ends(
        self, partitions: Iterable[Any], spec: Any, isolation: Any = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Any, int]:
        with named_errors():
            found = self._client.list_partition_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation)
        return {partition: int(one.offset) for partition, one in found.items()}


def _exists(described: Mapping[str, Any]) -> bool:
    name = name_of(described["error_code"])
    if name not in {"NONE", "LEADER_NOT_AVAILABLE", *_MISSING}:
        raise refusal(name, "a topic could not be described", topic=described["name"])
    return name not in _MISSING
