"""What a source reads, as far as a checkpoint can be compared with it: the topics of a log, or of a Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from oncelog.errors import UnknownTopicError
from oncelog.runtime import Log


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a partition: ``[start, end)``, of which `stable` is the end for read_committed readers."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """A topic that exists. Brokers before Kafka 2.8 name no id."""

    topic_id: str | None
    partitions: Mapping[int, Extent]


class Place(Protocol):
    """A log or a cluster."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def cluster_id(self) -> str | None:
        """Which log it is; None for a cluster, whose id no offset names."""

    def topics(self, names: Iterable[str]) -> dict[str, TopicExtent]:
        """The topics of these names that exist."""


class LogPlace:
    """A log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def name(self) -> str:
        return f"the log {self._log.path}"

    @property
    def cluster_id(self) -> str:
        return self._log.cluster_id

    def topics(self, names: Iterable[str]) -> dict[str, TopicExtent]:
        found: dict[str, TopicExtent] = {}
        for name in names:
            try:
                topic = self._log.admin.describe_topic(name)
            except UnknownTopicError:
                continue
            extents = {one.partition: Extent(one.log_start, one.lso, one.log_end) for one in topic.partitions}
            found[name] = TopicExtent(topic.topic_id, extents)
        return found
