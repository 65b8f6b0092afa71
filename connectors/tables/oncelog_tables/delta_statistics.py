"""The statistics of a file, as the log of a Delta table keeps them: readers skip files by them.

A value that Delta cannot say in JSON without changing it is left out; of long texts and of times, only a bound is said
that is not above the least and not below the greatest value.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from oncelog_tables.footers import ColumnFacts, FileFacts

TEXT_AT_MOST: Final = 32
"""Characters of a text, as in Delta's own statistics."""

INDEXED: Final = 32
"""Columns that Delta keeps statistics of, unless the table says otherwise."""

INDEXED_NUMBER: Final = "delta.dataSkippingNumIndexedCols"
INDEXED_NAMES: Final = "delta.dataSkippingStatsColumns"

_LAST: Final = "\U0010ffff"
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


def statistics(file: FileFacts, configuration: Mapping[str, str]) -> str:
    """The statistics of a file, in JSON, of the columns that the table wants to have them of."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path in _indexed(list(file.columns), configuration):
        facts = file.columns[path]
        low, high = _bounds(facts)
        for into, value in ((least, low), (greatest, high), (nulls, facts.nulls)):
            if value is not None:
                _put(into, path, value)
    return _json({"numRecords": file.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _indexed(paths: list[tuple[str, ...]], configuration: Mapping[str, str]) -> list[tuple[str, ...]]:
    names = configuration.get(INDEXED_NAMES)
    if names is not None:
        wanted = {name.strip().strip("`") for name in names.split(",")}
        return [path for path in paths if any(".".join(path[:at]) in wanted for at in range(1, len(path) + 1))]
    number = int(configuration.get(INDEXED_NUMBER, INDEXED))
    return paths if number < 0 else paths[:number]


def _bounds(facts: ColumnFacts) -> tuple[Any, Any]:
    """Values that bound the column's, in the form of the JSON; None where there is none."""
    least, greatest = facts.least, facts.greatest
    if isinstance(least, str):
        return least[:TEXT_AT_MOST], _above(greatest)
    if isinstance(least, dt.datetime):
        return _time(least), _time_above(greatest)
    if isinstance(least, dt.date):
        return least.isoformat(), greatest.isoformat()
    if isinstance(least, int | Decimal) and not isinstance(least, bool):
        return least, greatest
    return None, None


def _above(text: str) -> str | None:
    """A text of about the most characters that is not less than this one; None if there is none."""
    if len(text) <= TEXT_AT_MOST:
        return text
    return None if text[TEXT_AT_MOST] == _LAST else text[:TEXT_AT_MOST] + _LAST


def _time_above(value: dt.datetime) -> str | None:
    """A time in whole milliseconds that is not before this one; None if that is not in a year of four digits."""
    try:
        return _time(value + _MILLISECOND if value.microsecond % 1000 else value)
    except OverflowError:
        return None


def _time(value: dt.datetime) -> str:
    """A time in whole milliseconds, of UTC if it is of a time zone."""
    zone = "" if value.tzinfo is None else "Z"
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _json(value: Any) -> str:
    """JSON with all digits of decimals, which Python's encoder would make floats of."""
    if isinstance(value, dict):
        return "{{{}}}".format(",".join(f"{json.dumps(name)}:{_json(found)}" for name, found in value.items()))
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
