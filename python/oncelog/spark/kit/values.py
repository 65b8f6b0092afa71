"""Parsers of option values. Each raises ValueError with a description of what it expected."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Final

from oncelog.arguments import check_name
from oncelog.errors import UsageError
from oncelog.limits import MAX_NAME_BYTES
from oncelog.types import MAX_LONG


def text(given: str) -> str:
    """A text that is not empty, without the spaces around it."""
    if not given.strip():
        raise ValueError("a text that is not empty")
    return given.strip()


def boolean(given: str) -> bool:
    """True or false, in any case."""
    if given.strip().lower() not in {"true", "false"}:
        raise ValueError("true or false")
    return given.strip().lower() == "true"


def positive(given: str) -> int:
    """A whole number above 0 that fits into Java's long."""
    found = int(given) if re.fullmatch(r"\s*[0-9]{1,30}\s*", given, re.ASCII) else 0
    if not 0 < found <= MAX_LONG:
        raise ValueError(f"a whole number above 0, at most {MAX_LONG}")
    return found


def timestamp_ms(given: str) -> int:
    """Milliseconds since 1970."""
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", given, re.ASCII):
        raise ValueError("milliseconds since 1970, such as 1700000000000")
    return int(given)


_DURATION_UNITS_MS = {"ms": 1, "": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(given: str) -> int:
    """A duration in Spark's notation; a bare number means milliseconds."""
    match = re.fullmatch(r"\s*([0-9]{1,10})\s*(ms|s|m|min|h|d|)\s*", given.lower())
    if match is None:
        raise ValueError("a duration such as 15m, 30s or 500ms")
    return int(match[1]) * _DURATION_UNITS_MS[match[2]]


def choice(*allowed: str) -> Callable[[str], str]:
    """A parser that accepts one of these words, in any case."""

    def parse(given: str) -> str:
        if given.strip().lower() not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return given.strip().lower()

    return parse


def words(given: str) -> tuple[str, ...]:
    """Topic names, separated by commas."""
    found = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not found:
        raise ValueError("topic names, separated by commas")
    return found


def pattern(given: str) -> str:
    """A regular expression."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # [[ may mean a nested set one day
            re.compile(text(given))
    except (re.error, ValueError, OverflowError, RecursionError):
        raise ValueError("a regular expression for whole topic names") from None
    return given.strip()


def name(given: str) -> str:
    """A name that can be part of a znode's path."""
    try:
        return check_name("name", text(given))
    except UsageError as error:
        raise ValueError(f"a valid name: {error}") from None


PREFIX_RULE: Final = (
    "It must not end in `-<digits>`, as transactional ids do. Together with the `sinkName` it has at most "
    f"{MAX_NAME_BYTES} bytes."
)


def prefix(given: str) -> str:
    """A prefix of transactional ids. It must not end like one: `<prefix>-<digits>` would be ambiguous."""
    found = name(given)
    if re.search(r"-[0-9]+$", found):
        raise ValueError("a text that does not end in -<digits>, as the transactional ids of a prefix do")
    return found
