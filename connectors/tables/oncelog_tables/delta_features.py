"""What a Delta table may ask of whoever writes to it, and whether the sink does it.

The sink adds files that Spark's parquet writer wrote, or has delta-rs merge their rows, in one commit. It computes no
values, checks no conditions and gives columns no other names. A table that asks for such a thing, or for a feature that
this version of the sink does not know, is refused by name before a job runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from oncelog.errors import UsageError

TAKEN: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",  # a commit that only adds files is a change feed by itself; delta-rs writes that of a merge
        "deletionVectors",  # the files that it adds have none; a merge reads those of others
        "timestampNtz",
        "v2Checkpoint",
        # What follows is about columns or settings; `_problems` looks whether there are any.
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "invariants",
    }
)
"""Writer features that a table may name."""

APPEND_ONLY: Final = "delta.appendOnly"
FORGETS: Final = "delta.setTransactionRetentionDuration"
CONSTRAINTS: Final = "delta.constraints."
MAPPING: Final = "delta.columnMapping.mode"
DEFAULT: Final = "CURRENT_DEFAULT"

_OF_COLUMNS: Final = {
    "delta.invariants": "it has an invariant, which the sink does not check",
    "delta.generationExpression": "it is generated, and the sink computes no values",
    "delta.identity.start": "it is an identity column, and the sink gives no numbers",
    "__CHAR_VARCHAR_TYPE_STRING": "it is a char or varchar, whose length the sink does not check; make it a string",
}
"""By what the metadata of a column has."""

PARTITIONED_BY: Final = (
    T.StringType,
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DateType,
    T.DecimalType,
)
"""Types of which Spark's names of folders are the values as Delta writes them."""


def check(
    table: str,
    features: Collection[str],
    configuration: Mapping[str, str],
    schema: T.StructType,
    partitioned_by: Collection[str],
) -> None:
    """Refuse a table that asks its writers for what the sink does not do.

    Raises:
        UsageError: see above.
    """
    for about in _problems(features, configuration, schema, partitioned_by):
        raise UsageError("the sink cannot write into this Delta table", table=table, **about)


def check_merges(table: str, configuration: Mapping[str, str], partitioned_by: Collection[str]) -> None:
    """Refuse a table that lets nobody replace its rows, or not delta-rs.

    Raises:
        UsageError: see above.
    """
    if configuration.get(APPEND_ONLY, "").lower() == "true":
        raise UsageError(
            "the sink cannot replace rows of this Delta table: nobody may, by its own word; ALTER TABLE ... UNSET "
            "TBLPROPERTIES, or write with mode=append",
            table=table,
            property=APPEND_ONLY,
        )
    for name in partitioned_by:
        if not name.isprintable():
            raise UsageError(
                "the sink cannot replace rows of this Delta table: a column by which it is partitioned has a sign in "
                "its name that delta-rs does not write into names of folders; rename the column, or write with "
                "mode=append",
                table=table,
                column=name,
            )


def _problems(
    features: Collection[str], configuration: Mapping[str, str], schema: T.StructType, partitioned_by: Collection[str]
) -> Iterator[dict[str, Any]]:
    unknown = sorted(set(features) - TAKEN)
    if unknown:
        yield {
            "features": unknown,
            "reason": "its protocol has features that the sink does not know; ALTER TABLE ... DROP FEATURE takes one "
            "away",
        }
    if configuration.get(MAPPING, "none") != "none":
        yield {"property": MAPPING, "reason": "its columns have other names in the files (column mapping)"}
    if FORGETS in configuration:
        yield {
            "property": FORGETS,
            "reason": "the table forgets which batches it has, and a batch could get into it twice; ALTER TABLE ... "
            "UNSET TBLPROPERTIES",
        }
    constraints = [name.removeprefix(CONSTRAINTS) for name in configuration if name.startswith(CONSTRAINTS)]
    if constraints:
        yield {
            "constraints": constraints,
            "reason": "the sink does not check CHECK constraints; filter the rows in the query, and ALTER TABLE ... "
            "DROP CONSTRAINT",
        }
    for name, field in _fields(schema):
        for mark, reason in _OF_COLUMNS.items():
            if mark in field.metadata:
                yield {"column": name, "reason": reason}
    for name in partitioned_by:
        if not isinstance(schema[name].dataType, PARTITIONED_BY):
            kind = schema[name].dataType.simpleString()
            reason = f"the table is partitioned by a column of type {kind}; use a date or a text"
            yield {"column": name, "reason": reason}


def _fields(schema: T.StructType, above: str = "") -> Iterator[tuple[str, T.StructField]]:
    """All fields, also those within structs, with their full names."""
    for field in schema.fields:
        yield f"{above}{field.name}", field
        if isinstance(field.dataType, T.StructType):
            yield from _fields(field.dataType, f"{above}{field.name}.")
