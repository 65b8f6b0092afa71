"""Tables of the page. None has more than some hundred rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

ROWS_SHOWN: Final = 100

Row = list[Any]


class Table(NamedTuple):
    """A table of the page.

    Attributes:
        parts: the rows that a row unfolds to, for each row; or nothing, if none does.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[Row]
    parts: Sequence[list[Row]] = ()


def shown(table: Table, note: str, wanted: str) -> dict[str, Any]:
    """A table as JSON.

    Args:
        note: what stands below its title.
        wanted: a text that a row must have, or one that it unfolds to, in upper or lower case.
    """
    needle = wanted.casefold()
    found = [
        (row, parts)
        for row, parts in zip(table.rows, table.parts or [[]] * len(table.rows), strict=True)
        if not needle or any(needle in " ".join(map(str, one)).casefold() for one in (row, *parts))
    ]
    first = found[:ROWS_SHOWN]
    return {
        "title": table.title,
        "columns": table.columns,
        "note": note,
        "total": len(table.rows),
        "matching": len(found),
        "rows": [row for row, _ in first],
        "parts": [parts for _, parts in first] if table.parts else [],
    }


def few(names: Iterable[str]) -> str:
    """Some names, and how many more there are: a transaction may hold thousands of partitions."""
    found = list(names)
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
