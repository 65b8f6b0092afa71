"""Which source offsets of a batch the sink commits to its consumer group, in the batch's own transactions. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.ledger.progress import GroupProgress
from oncelog.spark.kit.progress import Foreign, parse_ends, progress
from oncelog.spark.offsets import is_source_offset
from oncelog.strict_json import without_duplicates
from oncelog.types import MAX_LONG, TopicPartition

if TYPE_CHECKING:
    from oncelog.spark.kit.context import BatchContext  # needs PySpark

_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
"""As Kafka's sources write it; Python's `int` would also accept `٣` and `007`."""

_NO_TOPICS = ("@absent", "@topicIds")
"""What `oncelog-kafka` writes next to the offsets: where it continues in topics that are out of sight now, and the ids
of topics that were created again since the query began. Neither belongs to a group's offsets."""

_OF_A_LOG = Foreign(
    is_source_offset,
    "a Kafka group cannot hold the offsets of a log; leave groupId out of the sink (the checkpoint keeps the "
    "progress), and set it on the source if the log should show the query's progress",
)

KafkaOffsets = dict[TopicPartition, int]


def of_batch(batch: BatchContext, group_id: str) -> GroupProgress[TopicPartition]:
    """The group's offsets before and after a batch. The query's first batch may start anywhere.

    Raises:
        BatchRefusedError: the query's progress is more than offsets of Kafka's partitions.
    """
    ends = parse_ends(batch, group_id, parse_offsets, "Kafka (format kafka or oncelog-kafka)", _OF_A_LOG)
    starts = [parse_offsets(text) for text in batch.start_offsets]
    known = [start for start in starts if start is not None]
    return progress(group_id, known if len(known) == len(starts) else [], ends)


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Offsets in the shape that Kafka's sources write."""
    found: dict[str, dict[int, int]] = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[place.partition] = offset
    return found


def parse_offsets(text: str | None) -> KafkaOffsets | None:
    """The offsets that a Kafka source logged, ``{"topic":{"0":12}}``; None if they are another source's.

    They are empty if no topic matches the source's pattern yet. Entries that are not topics are left out.
    """
    try:
        fields = json.loads(text or "", object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    for name in _NO_TOPICS:
        fields.pop(name, None)
    found: KafkaOffsets = {}
    for topic, partitions in fields.items():
        if not isinstance(partitions, dict) or not all(_is_offset(*one) for one in partitions.items()):
            return None
        found |= {TopicPartition(topic, int(number)): offset for number, offset in partitions.items()}
    return found


def _is_offset(number: str, offset: object) -> bool:
    return _PARTITION.fullmatch(number) is not None and type(offset) is int and 0 <= offset <= MAX_LONG
