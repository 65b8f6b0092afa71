"""The SQL by which delta-rs merges the rows of a batch into a Delta table.

Its condition says how small and how large the keys of the batch are, too: files and partitions of the table that have
no such keys are not read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oncelog_tables.footers import FileFacts
from oncelog_tables.keys import KeyColumn

SOURCE: Final = "source"
TARGET: Final = "target"
"""How the batch, and the table, are called."""


def condition(keys: Sequence[KeyColumn], files: Sequence[FileFacts]) -> str:
    """Which row of the table a row of the batch replaces.

    Args:
        files: of the batch.
    """
    return " AND ".join(part for key in keys for part in (_equal(key.name), *_bounded(key.name, files)))


def values(of_table: Sequence[str], written: Sequence[str]) -> dict[str, str]:
    """What the columns of a row become: those that the batch lacks have no value."""
    return {quoted(name): f"{SOURCE}.{quoted(name)}" if name in written else "NULL" for name in of_table}


def quoted(name: str) -> str:
    """The name of a column."""
    return "`{}`".format(name.replace("`", "``"))


def _equal(name: str) -> str:
    return f"{TARGET}.{quoted(name)} = {SOURCE}.{quoted(name)}"


def bounds(name: str, files: Sequence[FileFacts]) -> tuple[Any, Any] | None:
    """The least and the greatest key of a batch; None if not known, or of a type for which files are not left out."""
    facts = [file.columns[(name,)] for file in files]
    if any(_literal(bound) is None for one in facts for bound in (one.least, one.greatest)):
        return None
    return min(one.least for one in facts), max(one.greatest for one in facts)


def _bounded(name: str, files: Sequence[FileFacts]) -> Iterator[str]:
    found = bounds(name, files)
    if found is not None:
        yield f"{TARGET}.{quoted(name)} >= {_literal(found[0])}"
        yield f"{TARGET}.{quoted(name)} <= {_literal(found[1])}"


def _literal(value: Any) -> str | None:
    """A value in SQL; None if it is not known, or of a type for which files are not left out."""
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"DATE '{value.isoformat()}'"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
