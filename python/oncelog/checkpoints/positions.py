"""What a source's offset in a checkpoint means, of any source that reads a log or Kafka. Pure.

The sources of Kafka write ``{"topic":{"0":12}}``. `oncelog-kafka` adds the positions in topics that are missing,
and the ids of topics that were created again since the query first read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from oncelog.spark.offsets import SourceOffset, TopicOffsets, is_source_offset, parse_offset
from oncelog.strict_json import without_duplicates
from oncelog.types import MAX_LONG

_ABSENT, _TOPIC_IDS = "@absent", "@topicIds"
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
"""As Kafka's sources write it; Python's `int` would also accept `٣` and `007`."""


class SourceKind(StrEnum):
    """Whose offset it is, by the source's format."""

    LOG = "oncelog"
    KAFKA = "oncelog-kafka"
    SPARKS_KAFKA = "kafka"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The next offset of each partition of a topic; the id is None where neither offset nor checkpoint names it."""

    topic_id: str | None
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source stands.

    Attributes:
        text: as the source wrote it.
        cluster_id: of the log; None on Kafka.
        topics: by name.
        absent: topics of Kafka that were out of sight.
        group_id: the source's groupId, in an offset of a log.
    """

    kind: SourceKind
    text: str
    cluster_id: str | None = None
    topics: Mapping[str, TopicPosition] = field(default_factory=dict)
    absent: Mapping[str, TopicPosition] = field(default_factory=dict)
    group_id: str | None = None

    @property
    def everywhere(self) -> dict[str, TopicPosition]:
        """All topics, those out of sight too."""
        both = {name: dict(topic.offsets) for name, topic in self.absent.items()}
        for name, topic in self.topics.items():
            both[name] = {**both.get(name, {}), **topic.offsets}
        return {name: TopicPosition(self._id(name), offsets) for name, offsets in both.items()}

    def _id(self, name: str) -> str | None:
        return (self.topics.get(name) or self.absent[name]).topic_id


def read(text: str, first_ids: Mapping[str, str] | None = None) -> Position:
    """What an offset means.

    Args:
        text: from the offset log.
        first_ids: the first ids of the source's topics, from the source's folder; None if it has none: then an offset
            on Kafka is one of Spark's own source, unless it says otherwise.

    Raises:
        CorruptDataError, UnsupportedFormatError: an offset of the log is malformed, or a newer oncelog wrote it.
    """
    if is_source_offset(text):
        found = parse_offset(text)
        topics = {name: TopicPosition(topic.topic_id, topic.offsets) for name, topic in found.topics.items()}
        return Position(SourceKind.LOG, text, found.cluster_id, topics, group_id=found.group_id)
    fields = _object(text)
    offsets = None if fields is None else partition_offsets(fields)
    if fields is None or offsets is None:
        return Position(SourceKind.OTHER, text)
    ids = {**(first_ids or {}), **_texts(fields.get(_TOPIC_IDS))}
    is_own = first_ids is not None or _ABSENT in fields or _TOPIC_IDS in fields
    return Position(
        SourceKind.KAFKA if is_own else SourceKind.SPARKS_KAFKA,
        text,
        topics={name: TopicPosition(ids.get(name), found) for name, found in offsets.items()},
        absent={
            name: TopicPosition(ids.get(name), found)
            for name, found in (partition_offsets(fields.get(_ABSENT, {})) or {}).items()
        },
    )


def written(position: Position, first_ids: Mapping[str, str]) -> str:
    """The text of a position that was changed.

    Args:
        first_ids: as of `read`, in the folder that the text is for.
    """
    if position.kind is SourceKind.OTHER:
        return position.text
    separators = None if '": ' in position.text else (",", ":")
    return json.dumps(_fields(position, first_ids), separators=separators)


def _fields(position: Position, first_ids: Mapping[str, str]) -> dict[str, Any]:
    if position.kind is SourceKind.LOG:
        topics = {name: TopicOffsets(one.topic_id or "", one.offsets) for name, one in position.topics.items()}
        return SourceOffset(position.cluster_id or "", position.group_id, topics).to_dict()
    fields: dict[str, Any] = _by_topic(position.topics)
    if position.kind is SourceKind.SPARKS_KAFKA:
        return fields
    if position.absent:
        fields[_ABSENT] = _by_topic(position.absent)
    ids = {name: one.topic_id for name, one in sorted(position.everywhere.items()) if one.topic_id is not None}
    later = {name: topic_id for name, topic_id in ids.items() if first_ids.get(name, topic_id) != topic_id}
    return {**fields, _TOPIC_IDS: later} if later else fields


def _by_topic(topics: Mapping[str, TopicPosition]) -> dict[str, Any]:
    return {
        name: {str(partition): topic.offsets[partition] for partition in sorted(topic.offsets)}
        for name, topic in sorted(topics.items())
    }


# Kafka ----------------------------------------------------------------------------------------------------------------


def kafka_offsets(text: str | None) -> dict[str, dict[int, int]] | None:
    """The offsets that a source of Kafka logged, by topic; None if they are another source's.

    They are empty if no topic matches the source's pattern yet. Entries that are not topics are left out.
    """
    fields = _object(text or "")
    return None if fields is None else partition_offsets(fields)


def partition_offsets(fields: Mapping[str, Any]) -> dict[str, dict[int, int]] | None:
    """Offsets by topic and partition; None if the JSON object is something else."""
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in fields.items():
        if topic in (_ABSENT, _TOPIC_IDS):
            continue
        if not isinstance(partitions, dict) or not all(_is_offset(*one) for one in partitions.items()):
            return None
        found[topic] = {int(number): offset for number, offset in partitions.items()}
    return found


def topic_ids(text: str) -> dict[str, str] | None:
    """The ids in a file of the source's folder, by topic; None if it is not such a file."""
    fields = _object(text)
    return None if fields is None or not all(isinstance(one, str) for one in fields.values()) else fields


def _object(text: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(text, object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _texts(found: object) -> dict[str, str]:
    return {name: one for name, one in found.items() if isinstance(one, str)} if isinstance(found, dict) else {}


def _is_offset(number: str, offset: object) -> bool:
    return _PARTITION.fullmatch(number) is not None and type(offset) is int and 0 <= offset <= MAX_LONG
