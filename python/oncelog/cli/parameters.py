"""Parameter types: durations, sizes, times, headers and others. Each explains a wrong value in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from oncelog.types import TopicPartition

_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_BYTES = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def shared(flag: str, callback: Callable[..., Any], *, name: str | None = None, **settings: Any) -> click.Option:
    """An option that many commands have. Its callback stores the value; commands do not get it as an argument."""
    declarations = [flag] if name is None else [flag, name]
    return click.Option(declarations, expose_value=False, callback=callback, is_eager=True, **settings)


class _Quantity(click.ParamType[int]):
    """A number with a unit."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]{1,19})\s*([a-z]*)", str(value).strip().lower())
        if found is None or found[2] not in self._units:
            self.fail(f"{value!r} is not a {self.name}; write it like {self._example}", param, ctx)
        return int(found[1]) * self._units[found[2]]


DURATION = _Quantity("duration", _DURATION_MS, "500ms, 90s, 15m, 36h or 7d")
SIZE = _Quantity("size", _SIZE_BYTES, "1000000, 64MiB or 10GiB")


class OrNone(click.ParamType[Any]):
    """A quantity, or the word ``none``. The result is in a list, so that None differs from an option left out."""

    def __init__(self, quantity: click.ParamType[int]) -> None:
        self.name = f"{quantity.name}|none"
        self._quantity = quantity

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int | None]:
        if isinstance(value, list):
            return value
        return [None if value == "none" else self._quantity.convert(value, param, ctx)]


class PartitionOffset(click.ParamType[tuple[TopicPartition, int]]):
    """An offset of a partition: ``flights:0=42``."""

    name = "topic:partition=offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[TopicPartition, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"([^:=]+):([0-9]{1,9})=([0-9]{1,19})", str(value))
        if found is None:
            self.fail(f"{value!r} is not a partition's offset; write it like flights:0=42", param, ctx)
        return TopicPartition(found[1], int(found[2])), int(found[3])


class Separator(click.ParamType[bytes]):
    r"""The text between key and value; ``\t`` is a tab."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        if value == "" or "\n" in value:
            self.fail("a separator must be one line of text, and not empty", param, ctx)
        return _bytes_of(value.replace("\\t", "\t"))


SEPARATOR = Separator()


class Setting(click.ParamType[tuple[str, str]]):
    """An option of a sink: ``table=public.delayed``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, content = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not an option; write it like table=public.delayed", param, ctx)
        return name, content


class Header(click.ParamType[tuple[str, bytes]]):
    """A header of a record: ``source=billing``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bytes]:
        if isinstance(value, tuple):
            return value
        name, equals, content = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not a header; write it like source=billing", param, ctx)
        return name, _bytes_of(content)


class Moment(click.ParamType[int]):
    """A time in milliseconds since 1970 or in ISO 8601; UTC if it has no time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch("[0-9]{1,19}", value):
            return int(value)
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time; write it like 2013-01-01T10:00:00Z or 1357034400000", param, ctx)
        return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _bytes_of(argument: str) -> bytes:
    """The argument's bytes as the shell passed them, in any encoding."""
    return argument.encode(errors="surrogateescape")
