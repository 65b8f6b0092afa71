"""One option: its name, how its text is read, and what is said where that cannot be done. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncelog.errors import InvalidOptionError

KAFKA = "kafka."
ADMIN = "admin."


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table; `parse` raises ValueError with what it expected."""

    name: str
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    default_doc: str = ""


def parsed(option: Option, text: str | None) -> Any:
    """The value of an option; None without a text.

    Raises:
        InvalidOptionError: it is malformed.
    """
    if text is None:
        return None
    try:
        return option.parse(text)
    except ValueError as problem:
        raise InvalidOptionError(
            "the option's value is malformed", option=option.name, value=text, expected=str(problem)
        ) from None
