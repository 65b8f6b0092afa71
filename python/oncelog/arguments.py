"""Checks names, numbers and choices that users pass in, before any of them is stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from oncelog import limits
from oncelog.errors import InvalidOptionError, Shown, UsageError
from oncelog.types import MAX_LONG
from oncelog.znodes import paths

Choice = TypeVar("Choice", bound=StrEnum)


def check_name(kind: str, name: object) -> str:
    """Return `name` if a znode's path can hold it.

    Args:
        kind: what the name is, for the error: "transactional id", "group id".

    Raises:
        UsageError: `name` is not text, is empty or too long, or has an unpaired surrogate.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"a {kind} must be text, and not empty", found=Shown(repr(name)))
    try:
        size_bytes = len(paths.segment(name))
    except UnicodeEncodeError:
        raise UsageError(f"a {kind} must be valid Unicode, without unpaired surrogates", found=name) from None
    if size_bytes > limits.MAX_NAME_BYTES:
        raise UsageError(
            f"the {kind} is too long; each byte other than ASCII letters, digits and - . _ ~ counts as three",
            found=f"{name[:100]}...",
            size_bytes=size_bytes,
            maximum_bytes=limits.MAX_NAME_BYTES,
        )
    return name


def check_number(name: str, number: object, *, least: int = 0, most: int = MAX_LONG, **fields: object) -> int:
    """Return `number` if it is an int within bounds. A bool or a float is refused, even if it equals an int.

    Args:
        name: of the argument, for the error.
        fields: other fields for the error.

    Raises:
        UsageError: `number` is not an int, or out of bounds.
    """
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if is_whole and least <= number <= most:  # type: ignore[operator]
        return number  # type: ignore[return-value]
    least_of_all = {} if least == -MAX_LONG else {"minimum": least}
    most_of_all = {} if most == MAX_LONG else {"maximum": most}
    message = f"{name} is out of bounds" if is_whole else f"{name} must be a whole number"
    raise UsageError(message, **{**fields, name: number, **least_of_all, **most_of_all})


def check_choice(name: str, choices: type[Choice], value: object) -> Choice:
    """The member of `choices` that `value` is or names, in upper or lower case.

    Raises:
        InvalidOptionError: there is no such member.
    """
    try:
        return choices(value.lower() if isinstance(value, str) else value)  # type: ignore[arg-type]
    except ValueError:
        unknown = f"unknown {name.replace('_', ' ')}"
        raise InvalidOptionError(unknown, **{name: value, "known": list(choices)}) from None
