"""What is fuzzed: a target makes inputs out of valid ones, gives each to the product, and judges the answer."""

from __future__ import annotations

import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from random import Random
from typing import Any

from oncelog.types import MAX_PRODUCER_EPOCH, MAX_SEQUENCE


class Verdict(StrEnum):
    """The two answers that are right."""

    REFUSED = "clear error"
    CORRECT = "correct"


class WrongAnswerError(Exception):
    """The product answered with what the target's oracle says is wrong."""


class Target(ABC):
    """One door of the product. The docstring of a subclass says what its oracle knows.

    Attributes:
        name: on the command line.
        weight: its share of the inputs, by how long one takes; 1 for most.
    """

    name: str
    weight: float = 1.0

    @abstractmethod
    def prepare(self) -> None:
        """Make the valid inputs, by the product itself and always the same; before the first input of a process."""

    @abstractmethod
    def valid(self) -> Iterable[bytes]:
        """The inputs that are not mutated: the product must answer each of them, and correctly."""

    @abstractmethod
    def make(self, chance: Random) -> bytes:
        """A mutated input. It says all that `check` needs, so that it can be kept and replayed."""

    @abstractmethod
    def check(self, data: bytes) -> Verdict:
        """Give an input to the product.

        Raises:
            WrongAnswerError: a wrong row, a silent skip, a value that no writer writes.
            Exception: anything else that gets out is the finding.
        """

    def close(self) -> None:  # noqa: B027 - most make nothing outside
        """Remove what `prepare` made outside of the process."""


def expect(condition: bool, law: str, **found: object) -> None:
    """Raise `WrongAnswerError` unless the condition holds."""
    if not condition:
        details = ", ".join(f"{name}={value!r:.200}" for name, value in found.items())
        raise WrongAnswerError(f"{law} [{details}]")


# Values ---------------------------------------------------------------------------------------------------------------

_LONG = 2**63 - 1
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "order": (-_LONG - 1, _LONG),
    "content_hash": (-_LONG - 1, _LONG),
    "batch_id": (-_LONG - 1, _LONG),
    "min_timestamp_ms": (-1, _LONG),
    "max_timestamp_ms": (-1, _LONG),
    "epoch": (0, MAX_PRODUCER_EPOCH),
    "last_epoch": (-1, MAX_PRODUCER_EPOCH),
    "next_epoch": (-1, MAX_PRODUCER_EPOCH),
    "previous_producer_id": (-1, _LONG),
    "next_producer_id": (-1, _LONG),
    "base_sequence": (-1, MAX_SEQUENCE),
    "first_sequence": (0, MAX_SEQUENCE),
    "crc32": (0, 2**32 - 1),
    "count": (1, _LONG),
}
"""Where numbers of a name may lie; all others from 0 to what 64 bits hold."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def expect_typed(value: Any, *, least: int = 0) -> None:
    """Check a frozen dataclass in depth: each field is of its declared type, each number within its bounds.

    Knows nothing of how the value was read, so that what a reader forgets to check is found.
    """
    for field in fields(value):
        expect_of(getattr(value, field.name), _hints(value.__class__)[field.name], field.name, least)


def expect_of(value: Any, hint: Any, name: str, least: int = 0) -> None:
    """Check one value against a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            expect(type(None) in arguments, "a value is missing", name=name)
            return
        fitting = [one for one in arguments if _is_of(value, one)]
        expect(bool(fitting), "a value has no type of its field", name=name, value=value)
        expect_of(value, fitting[0], name, least)
    elif origin is tuple:
        expect(type(value) is tuple, "a value has another type than its field", name=name, value=value)
        for item in value:
            expect_of(item, arguments[0], name, least)
    elif origin is not None:
        expect(isinstance(value, origin), "a value has another type than its field", name=name, value=value)
        if isinstance(value, Mapping):
            for item in value.values():
                expect_of(item, arguments[1], name, least)
    elif hint is not Any:
        expect(type(value) is hint, "a value has another type than its field", name=name, value=value)
        if is_dataclass(hint):
            expect_typed(value, least=least)
        elif hint is int:
            low, high = _BOUNDS.get(name, (least, _LONG))
            expect(low <= value <= high, "a number is out of bounds", name=name, value=value)


def _is_of(value: Any, hint: Any) -> bool:
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Enum):
        return type(value) is kind
    return isinstance(value, kind) and not (kind is str and isinstance(value, Enum))
