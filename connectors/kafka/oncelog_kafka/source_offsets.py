"""Which source offsets of a batch the sink commits to a consumer group, within the batch's own transactions. Pure.

After a lost checkpoint a query that starts where the group stands goes on exactly behind the last committed batch. That
holds only if the group's offsets are all the query's progress; what else a query may depend on is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncelog.errors import BatchRefusedError
from oncelog.spark.context import BatchContext
from oncelog.strict_json import without_duplicates
from oncelog.types import MAX_LONG

_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
"""As Kafka's sources write it: Python reads more as a number, such as `٣` and `007`."""

_NO_TOPICS = ("@absent", "@topicIds")
"""What `oncelog-kafka` writes beside the offsets: where it goes on in topics that it does not see, in which a group's
offset can become nobody's; and the ids of topics that were created again since the query began."""

KafkaOffsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The group's offsets of a batch.

    Attributes:
        group_id: the group.
        start: what the group must hold before the batch; None where the batch is the query's first.
        end: what it holds once the batch is committed.
    """

    group_id: str
    start: KafkaOffsets | None
    end: KafkaOffsets


def of_batch(batch: BatchContext, group_id: str) -> GroupOffsets:
    """The group's offsets before and after a batch.

    Raises:
        BatchRefusedError: the query's progress is more than offsets of Kafka's partitions.
    """
    if batch.has_state:
        raise BatchRefusedError(
            "the query keeps state, which would not resume with the group's offsets; leave groupId out of the sink",
            group_id=group_id,
            query_id=batch.query_id,
        )
    ends = [parse_offsets(text) for text in batch.end_offsets]
    if not ends or any(end is None for end in ends):
        raise BatchRefusedError(
            "every source of the query must be Kafka (format kafka or oncelog-kafka), for the group to hold its "
            "progress; leave groupId out of the sink",
            group_id=group_id,
            sources=list(batch.end_offsets),
        )
    starts = [parse_offsets(text) for text in batch.start_offsets]
    known = None if any(start is None for start in starts) else _merged((s for s in starts if s is not None), group_id)
    return GroupOffsets(group_id, known, _merged((end for end in ends if end is not None), group_id))


def parse_offsets(text: str | None) -> KafkaOffsets | None:
    """The offsets that a Kafka source logged, ``{"topic":{"0":12}}``; None if they are another source's.

    They may be empty: a pattern that no topic matches yet. What stands beside topics is left out.
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
        found[topic] = {int(number): offset for number, offset in partitions.items()}
    return found


def _is_offset(number: str, offset: object) -> bool:
    return _PARTITION.fullmatch(number) is not None and type(offset) is int and 0 <= offset <= MAX_LONG


def _merged(offsets: Iterable[KafkaOffsets], group_id: str) -> KafkaOffsets:
    merged: KafkaOffsets = {}
    for source in offsets:
        for topic, partitions in source.items():
            known = merged.setdefault(topic, {})
            for number, offset in partitions.items():
                if number in known:
                    raise BatchRefusedError(
                        "two sources of the query read one partition; one offset cannot stand for both",
                        group_id=group_id,
                        topic=topic,
                        partition=number,
                    )
                known[number] = offset
    return merged


def moved(start: Mapping[str, Mapping[int, int]], held: Mapping[tuple[str, int], int]) -> dict[str, tuple[int, int]]:
    """Partitions of which the group holds another offset than the batch starts at: (held, start) by ``topic-number``.

    A partition that the group never committed stands nowhere, and is no contradiction.
    """
    return {
        f"{topic}-{number}": (held[topic, number], offset)
        for topic, partitions in start.items()
        for number, offset in partitions.items()
        if (topic, number) in held and held[topic, number] != offset
    }
