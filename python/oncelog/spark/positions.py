"""Where a read starts and ends, as a user gives it: names, offsets or times, in the format of Spark's Kafka source.

Values and their JSON only. planner.py resolves them on a given log (which offset is the earliest, which has a given
time).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

from oncelog.strict_json import DuplicateNameError, without_duplicates
from oncelog.types import MAX_LONG, TopicPartition

LATEST_OFFSET = -1
EARLIEST_OFFSET = -2
"""What stands for an offset in a user's JSON."""

MAX_PARTITION = 999_999_999
"""The highest partition number that is accepted; anything above is a typo."""

_PARTITION = re.compile("[0-9]{1,9}")

OFFSETS_SHAPE = '{"topic":{"0":23,"1":-2}}'
TIMESTAMPS_SHAPE = '{"topic":{"0":1700000000000,"1":1700000000000}}'
ASSIGNMENT_SHAPE = '{"topic":[0,1]}'


class Bound(StrEnum):
    """A position with a name, the same for every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


class NoMatch(StrEnum):
    """What to do for a partition that has no record at or after the given time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or `EARLIEST_OFFSET` or `LATEST_OFFSET`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """In each partition, the first record at or after the same time."""

    timestamp_ms: int
    no_match: NoMatch = NoMatch.ERROR


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """In each partition, the first record at or after that partition's time."""

    timestamps_ms: Mapping[TopicPartition, int]
    no_match: NoMatch = NoMatch.ERROR


Position = Bound | AtOffsets | AtTimestamp | AtTimestamps


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic":{"0":23,"1":-2}}``; raises ValueError with what was expected."""
    return _parse_numbers(text, least=EARLIEST_OFFSET, shape=OFFSETS_SHAPE)


def parse_timestamps(text: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic":{"0":1700000000000}}``, milliseconds; raises ValueError with what was expected."""
    return _parse_numbers(text, least=0, shape=TIMESTAMPS_SHAPE)


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Parse ``{"topic":[0,1]}``; raises ValueError with what was expected."""
    found: dict[TopicPartition, None] = {}
    for topic, partitions in _parse_topics(text, ASSIGNMENT_SHAPE):
        _expect(isinstance(partitions, list) and len(partitions) > 0, ASSIGNMENT_SHAPE)
        for partition in partitions:
            _expect(_is_int(partition) and 0 <= partition <= MAX_PARTITION, ASSIGNMENT_SHAPE)
            found[TopicPartition(topic, partition)] = None
    return tuple(sorted(found))


def _parse_numbers(text: str, *, least: int, shape: str) -> dict[TopicPartition, int]:
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _parse_topics(text, shape):
        _expect(isinstance(partitions, dict) and len(partitions) > 0, shape)
        for partition, number in partitions.items():
            _expect(_PARTITION.fullmatch(partition) is not None, shape)
            _expect(_is_int(number) and least <= number <= MAX_LONG, shape)
            named = TopicPartition(topic, int(partition))
            _expect(named not in numbers, f"{shape}, each topic and partition once")
            numbers[named] = number
    return numbers


def _parse_topics(text: str, shape: str) -> Iterator[tuple[str, Any]]:
    try:
        topics = json.loads(text, object_pairs_hook=without_duplicates, parse_int=_number)
    except DuplicateNameError:
        raise _malformed(f"{shape}, each topic and partition once") from None
    except (json.JSONDecodeError, RecursionError):
        topics = None
    _expect(isinstance(topics, dict) and len(topics) > 0, shape)
    yield from topics.items()


def _number(digits: str) -> float:
    """A JSON integer; infinity if it has too many digits for Python to parse."""
    return int(digits) if len(digits) < 100 else inf


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _expect(condition: bool, shape: str) -> None:
    if not condition:
        raise _malformed(shape)


def _malformed(shape: str) -> ValueError:
    return ValueError(f"JSON of the shape {shape}")
