"""What users pass in: names, numbers, choices. Checked at the door, so that nothing odd is ever stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from oncelog import limits
from oncelog.errors import InvalidOptionError, Shown, UsageError
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
        raise UsageError(f"a {kind} is text, and not empty", found=Shown(repr(name)))
    try:
        size_bytes = len(paths.segment(name))
    except UnicodeEncodeError:
        raise UsageError(f"a {kind} is text that can be encoded; half a surrogate cannot", found=name) from None
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
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if is_whole and least <= number <= most:  # type: ignore[operator]
        return number  # type: ignore[return-value]
    least_of_all = {} if least == -MAX_LONG else {"minimum": least}
    most_of_all = {} if most == MAX_LONG else {"maximum": most}
    message = f"{name} is out of bounds" if is_whole else f"{name} must be a whole number"
    raise UsageError(message, **{**fields, name: number, **least_of_all, **most_of_all})


def check_choice(name: str, choices: type[Choice], value: object) -> Choice:
    """One of the members of `choices`, or its value in any case.

    Raises:
        InvalidOptionError: it is none.
    """
    try:  # what is no text is no member, either
        return choices(value.lower() if isinstance(value, str) else value)  # type: ignore[arg-type]
    except ValueError:
        unknown = f"unknown {name.replace('_', ' ')}"
        raise InvalidOptionError(unknown, **{name: value, "known": list(choices)}) from None
