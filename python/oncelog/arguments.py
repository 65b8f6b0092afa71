"""What users pass in: names, numbers, choices. Checked at the door, so that nothing odd is ever stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from oncelog import limits
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.types import MAX_LONG
from oncelog.znodes import paths

Choice = TypeVar("Choice", bound=StrEnum)


def check_name(kind: str, name: object) -> str:
    """A name that a znode's path can hold.

    Args:
        kind: what it names, for the error: "transactional id", "group id".
        name: any text that is not empty.

    Raises:
        UsageError: it is no text, empty, holds half a surrogate, or is too long.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"a {kind} is text, and not empty", found=repr(name))
    try:
        size_bytes = len(paths.segment(name))
    except UnicodeEncodeError:
        raise UsageError(f"a {kind} is text that can be encoded; half a surrogate cannot", found=repr(name)) from None
    if size_bytes > limits.MAX_NAME_BYTES:
        raise UsageError(
            f"the {kind} is too long; what is no letter or digit counts three times a byte",
            found=f"{name[:100]}...",
            size_bytes=size_bytes,
            maximum_bytes=limits.MAX_NAME_BYTES,
        )
    return name


def check_number(name: str, number: object, *, least: int = 0, most: int = MAX_LONG, **fields: object) -> int:
    """A whole number: no truth value, and no float that happens to be one.

    Args:
        name: of the argument.
        number: what was passed.
        least, most: its bounds.
        fields: what else the error names.

    Raises:
        UsageError: it is none, or out of bounds.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        message = f"{name} is out of bounds, or no whole number"
        raise UsageError(message, **{**fields, name: number, "minimum": least, "maximum": most})
    return number


def check_choice(name: str, choices: type[Choice], value: object) -> Choice:
    """One of the members of `choices`, or its value.

    Raises:
        InvalidOptionError: it is none.
    """
    try:  # what is no text is no member, either
        return choices(value)  # type: ignore[arg-type]
    except ValueError:
        unknown = f"unknown {name.replace('_', ' ')}"
        raise InvalidOptionError(unknown, **{name: value, "known": list(choices)}) from None
