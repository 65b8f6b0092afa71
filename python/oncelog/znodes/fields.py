"""Reads the values in a payload. A value that oncelog never writes is a ValueError; nothing is converted.

Znodes have no checksums: damage is only found because every value must be one that oncelog could have written. So the
bounds are as narrow as the writers', and `"7"`, `7.0` and `true` are not numbers.
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
    """The timestamp of a record, or `NO_TIMESTAMP`."""
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
    """The path of a znode. Raises InvariantViolation if no store would accept it."""
    split_path(text(value))
    return str(value)


def segment(value: Any) -> str:
    """One segment of a path."""
    if split_path(f"/{text(value)}") != (ROOT, value):
        raise ValueError("one segment of a path")
    return str(value)


def pair(row: Any) -> ProducerIdAndEpoch:
    producer_id, its_epoch = rows(row)
    return ProducerIdAndEpoch(number(producer_id), epoch(its_epoch))


def rows(value: Any) -> list[Any]:
    """A JSON array, and not a string or an object, which are iterable, too."""
    if type(value) is not list:
        raise ValueError("an array")
    return value


def several(read: Callable[[Any], T], value: Any) -> tuple[T, ...]:
    """All items of an array."""
    return tuple(read(item) for item in rows(value))


def maybe(read: Callable[[Any], T], value: Any) -> T | None:
    """A value that may be null."""
    return None if value is None else read(value)
