"""What the decision of a batch says: from which staging table which rows go into which columns of which table.

The ledger keeps it as the parts of a `Committable`, so that any later driver can commit the batch, whatever its own
options are: the first part is a JSON object with the fields below, each other one is a task's token and number of rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncelog.batches.committer import parse_parts
from oncelog.strict_json import without_duplicates
from oncelog.znodes import fields
from oncelog_postgres.options import TableName
from oncelog_postgres.staging import Copied

STAGING: Final = "staging_"
"""What the names of staging tables begin with."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """A batch that is staged.

    Attributes:
        attempt: that wrote it; names the staging table, and the batch in the table `batches`.
        prefix: of the sink.
        schema: that has oncelog's own tables.
        table: that the rows go to.
        columns: its columns, each with the type that its staged value is cast to, or None.
        key_columns: by which rows are replaced; empty if rows are only added.
        pieces: what the tasks that won have copied.
        is_prepared: whether their rows are in prepared transactions of their own, and not staged; see prepared.py.
    """

    attempt: str
    prefix: str
    schema: str
    table: TableName
    columns: tuple[tuple[str, str | None], ...]
    key_columns: tuple[str, ...]
    pieces: tuple[Copied, ...]
    is_prepared: bool = False

    @property
    def staging(self) -> str:
        """The staging table's name."""
        return staging_table(self.attempt)

    @property
    def tokens(self) -> list[int]:
        return [piece.token for piece in self.pieces]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def parts(self) -> tuple[str, ...]:
        """As parts of a `Committable`."""
        head = {
            "attempt": self.attempt,
            "prefix": self.prefix,
            "schema": self.schema,
            "table": self.table.parts,
            "columns": self.columns,
            "keyColumns": self.key_columns,
            **({"isPrepared": True} if self.is_prepared else {}),
        }
        return json.dumps(head, ensure_ascii=False), *(f"{piece.token}:{piece.rows}" for piece in self.pieces)


def staging_table(attempt: str) -> str:
    """The name of an attempt's staging table."""
    return f"{STAGING}{attempt}"


def of_parts(parts: Sequence[str]) -> Insertion:
    """The inverse of `Insertion.parts`.

    Raises:
        CorruptDataError: the parts are malformed.
    """
    return parse_parts(parts, _parsed)


def _parsed(parts: Sequence[str]) -> Insertion:
    head: dict[str, Any] = json.loads(parts[0], object_pairs_hook=without_duplicates)
    schema, table = head["table"]
    pieces = (piece.split(":") for piece in parts[1:])
    return Insertion(
        attempt=fields.text(head["attempt"]),
        prefix=fields.text(head["prefix"]),
        schema=fields.text(head["schema"]),
        table=TableName(fields.text(schema), fields.text(table)),
        columns=tuple((fields.text(column), fields.maybe(_type, cast)) for column, cast in head["columns"]),
        key_columns=fields.several(fields.text, head["keyColumns"]),
        pieces=tuple(Copied(int(token), int(rows)) for token, rows in pieces),
        is_prepared=fields.flag(head.get("isPrepared", False)),
    )


_WORD: Final = r'(?:[a-z_][a-z0-9_]*|"(?:[^"]|"")+")'
_TYPE: Final = re.compile(rf"{_WORD}(?:\.{_WORD}|(?: [a-z]+)*)(?:\[\])?")
"""The name of a type, as PostgreSQL's format_type writes it. It becomes part of a statement as it is."""


def _type(given: object) -> str:
    found = fields.text(given)
    if _TYPE.fullmatch(found) is None:
        raise ValueError("not the name of a type")
    return found
