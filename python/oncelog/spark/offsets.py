"""The source's offset: how far it has read, as Spark keeps it in a checkpoint. Values and pure rules only.

Spark compares offsets as text, so `SourceOffset.to_dict` uses one order: topics by name, partitions by number. A
partition stays in the offset once it is there, and never moves backwards, unless its topic is deleted and the query may
continue without it (selection.py). Only `advance` moves an offset forward. It adds a new partition at its log start, in
a batch that reads nothing. Hence a batch only reads from positions that a checkpoint holds, and it reads whole plans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oncelog.errors import CorruptDataError, UnsupportedFormatError, UsageError
from oncelog.strict_json import without_duplicates
from oncelog.types import MAX_LONG, TopicIdPartition, TopicPartition

VERSION = 1


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The next offset to read of each partition of a topic; a topic that was created again has a new id."""

    topic_id: str
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next offsets to read, of all topics of one source.

    Attributes:
        cluster_id: of the log; offsets of one log mean nothing on another.
        group_id: the source's groupId, if it is set.
        topics: by name.
    """

    cluster_id: str
    group_id: str | None
    topics: Mapping[str, TopicOffsets] = field(default_factory=dict)

    def offset_of(self, partition: TopicIdPartition) -> int | None:
        """The next offset to read of `partition`; None if this offset does not contain it, by topic id."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id:
            return None
        return topic.offsets.get(partition.partition)

    def partitions(self) -> dict[TopicIdPartition, int]:
        """Every partition with its next offset, in order."""
        return {
            TopicIdPartition(name, topic.topic_id, partition): topic.offsets[partition]
            for name, topic in sorted(self.topics.items())
            for partition in sorted(topic.offsets)
        }

    def names(self) -> set[str | TopicPartition]:
        """The topics and partitions in this offset, as options name them."""
        return {*self.topics, *(partition.topic_partition for partition in self.partitions())}

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that Spark keeps; equal offsets have equal text."""
        return {
            "version": VERSION,
            "cluster_id": self.cluster_id,
            "group_id": self.group_id,
            "topics": {
                name: {
                    "id": topic.topic_id,
                    "offsets": {str(partition): topic.offsets[partition] for partition in sorted(topic.offsets)},
                }
                for name, topic in sorted(self.topics.items())
            },
        }

    def to_json(self) -> str:
        """`to_dict` as compact JSON."""
        return _compact(self.to_dict())


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """What a plan found in one partition.

    Attributes:
        log_start: the first offset that retention has not removed.
        end: the offset that a batch may read up to (exclusive).
    """

    partition: TopicIdPartition
    log_start: int
    end: int


def is_source_offset(text: str) -> bool:
    """Whether a logged offset was written by an oncelog source of any version."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and {"version", "cluster_id", "group_id", "topics"} <= fields.keys()


def parse_offset(found: str | Mapping[str, Any]) -> SourceOffset:
    """Read an offset from a checkpoint.

    Args:
        found: the text, or the JSON object that Spark passes to a reader.

    Raises:
        CorruptDataError: it is not an offset of this source.
        UnsupportedFormatError: a newer oncelog wrote it.
    """
    try:
        fields = json.loads(found, object_pairs_hook=without_duplicates) if isinstance(found, str) else found
        version = fields["version"]
        if type(version) is int and version > VERSION:
            raise UnsupportedFormatError(
                "a newer oncelog wrote the offset in the checkpoint: upgrade oncelog", version=version, known=VERSION
            )
        return _parse_fields(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise CorruptDataError(
            "the checkpoint contains an offset that the oncelog source did not write", found=found, problem=str(problem)
        ) from None


def _parse_fields(fields: Mapping[str, Any]) -> SourceOffset:
    cluster_id, group_id = fields["cluster_id"], fields["group_id"]
    _expect(fields.keys() == {"version", "cluster_id", "group_id", "topics"}, "names of fields")
    _expect(type(fields["version"]) is int and fields["version"] == VERSION, "version")
    _expect(isinstance(cluster_id, str), "cluster_id")
    _expect(group_id is None or isinstance(group_id, str), "group_id")
    topics = {}
    for name, topic in fields["topics"].items():
        _expect(topic.keys() == {"id", "offsets"}, "names of a topic's fields")
        _expect(isinstance(topic["id"], str), "id of a topic")
        for partition, offset in topic["offsets"].items():
            _expect(partition == str(int(partition)) and int(partition) >= 0, "number of a partition")
            _expect(type(offset) is int and 0 <= offset <= MAX_LONG, "offset of a partition")
        topics[name] = TopicOffsets(topic["id"], {int(key): offset for key, offset in topic["offsets"].items()})
    return SourceOffset(cluster_id, group_id, topics)


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


# Rules ----------------------------------------------------------------------------------------------------------------


def check_same_log(offset: SourceOffset, cluster_id: str) -> None:
    """Refuse an offset of another log, because its numbers would name other records here.

    Raises:
        UsageError: the checkpoint belongs to another log.
    """
    if offset.cluster_id != cluster_id:
        raise UsageError(
            "the checkpoint belongs to another log; read that log's path, or start with a new checkpoint",
            checkpoint_cluster_id=offset.cluster_id,
            cluster_id=cluster_id,
        )


def advance(known: SourceOffset, ends: Iterable[PartitionEnd]) -> SourceOffset:
    """The end of the next batch.

    A known partition never moves backwards and never disappears, even if it is missing in `ends`. A new partition (or
    one of a topic that was created again) is added at its log start, in a batch that reads nothing. The next batch then
    reads the whole plan, each partition from a position that the checkpoint holds. Hence what a transaction wrote to
    known partitions never arrives before what it wrote to new ones.

    Args:
        known: the end of the last batch.
        ends: what a plan found.

    Returns:
        `known` itself if there is nothing new.
    """
    topics = {name: (topic.topic_id, dict(topic.offsets)) for name, topic in known.topics.items()}
    planned = list(ends)
    appeared = [found for found in planned if known.offset_of(found.partition) is None]
    for found in appeared or planned:
        name, topic_id = found.partition.topic, found.partition.topic_id
        if name not in topics or topics[name][0] != topic_id:
            topics[name] = (topic_id, {})
        before = known.offset_of(found.partition)
        topics[name][1][found.partition.partition] = found.log_start if before is None else max(before, found.end)
    advanced = replace(known, topics={name: TopicOffsets(*topic) for name, topic in topics.items()})
    return known if advanced == known else advanced


def ranges(start: SourceOffset, end: SourceOffset) -> Iterator[tuple[TopicIdPartition, int, int]]:
    """What a batch from `start` to `end` reads: ``(partition, first, last + 1)``, without empty ranges.

    A partition that is only in `end` was added there at its log start; the next batch reads it.
    """
    for partition, end_offset in end.partitions().items():
        start_offset = start.offset_of(partition)
        if start_offset is not None and start_offset < end_offset:
            yield partition, start_offset, end_offset


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
