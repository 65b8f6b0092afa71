"""Readers of the values in a payload. What oncelog never writes there is a ValueError, and nothing is converted.

A znode carries no checksum: its only protection against damage is that every value is what its writer could have
written. Hence the bounds are as narrow as the writers': `"7"`, `7.0` and `true` are no numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oncelog.types import MAX_LONG, MAX_PRODUCER_EPOCH, MAX_SEQUENCE, NO_TIMESTAMP, ProducerIdAndEpoch
from oncelog.znodes.rules import ROOT, split_path

T = TypeVar("T")


def number(value: Any, least: int = 0, most: int = MAX_LONG) -> int:
    """A whole number within ``[least, most]``: a count, an offset, a size, a time."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a whole number from {least} to {most}")
    return value


def signed(value: Any) -> int:
    """A whole number of 64 bits."""
    return number(value, -MAX_LONG - 1)


def timestamp_ms(value: Any) -> int:
    """The time of a record, or that there is none."""
    return number(value, NO_TIMESTAMP)


def epoch(value: Any, least: int = 0) -> int:
    return number(value, least, MAX_PRODUCER_EPOCH)


def sequence(value: Any, least: int = 0) -> int:
    return number(value, least, MAX_SEQUENCE)


def text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a text")
    return value


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def path(value: Any) -> str:
    """The path of a znode. Raises InvariantViolation where no store would take it."""
    split_path(text(value))
    return str(value)


def segment(value: Any) -> str:
    """What stands between two slashes of a path."""
    if split_path(f"/{text(value)}") != (ROOT, value):
        raise ValueError("one segment of a path")
    return str(value)


def pair(row: Any) -> ProducerIdAndEpoch:
    producer_id, its_epoch = rows(row)
    return ProducerIdAndEpoch(number(producer_id), epoch(its_epoch))


def rows(value: Any) -> list[Any]:
    """A JSON array; a text or an object could be walked over as well."""
    if type(value) is not list:
        raise ValueError("an array")
    return value


def several(read: Callable[[Any], T], value: Any) -> tuple[T, ...]:
    """All of an array."""
    return tuple(read(item) for item in rows(value))


def maybe(read: Callable[[Any], T], value: Any) -> T | None:
    """A value that may be null."""
    return None if value is None else read(value)
