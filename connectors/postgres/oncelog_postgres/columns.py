"""Which columns of a DataFrame go into which columns of a table, and as which types.

Tasks copy values in the type of PostgreSQL that is nearest to Spark's, the *staged* type. PostgreSQL turns it into the
column's own when it inserts the row, before the decision: so values that do not fit are an error that decides nothing.
Types for which Spark has none (uuid, inet, enums, ...) are staged as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812 - the same

from oncelog.errors import InvalidRecordError
from oncelog.spark.kit import row_values
from oncelog_postgres.kept import Kept
from oncelog_postgres.tables import Table, TableColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STAGED: Final[Mapping[type[T.DataType], str]] = {
    T.BooleanType: "boolean",
    T.ByteType: "smallint",
    T.ShortType: "smallint",
    T.IntegerType: "integer",
    T.LongType: "bigint",
    T.FloatType: "real",
    T.DoubleType: "double precision",
    T.DecimalType: "numeric",
    T.StringType: "text",
    T.BinaryType: "bytea",
    T.DateType: "date",
    T.TimestampType: "timestamp with time zone",
    T.TimestampNTZType: "timestamp without time zone",
}
"""By Spark's type. Arrays of these are staged as arrays."""

_WHOLE = ("smallint", "integer", "bigint")

TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean",),
    "smallint": _WHOLE[:1],
    "integer": _WHOLE[:2],
    "bigint": _WHOLE,
    "numeric": (*_WHOLE, "numeric"),
    "real": ("real",),
    "double precision": ("real", "double precision", "smallint", "integer"),
    "bytea": ("bytea",),
    "date": ("date",),
    "timestamp with time zone": ("timestamp with time zone",),
    "timestamp without time zone": ("timestamp without time zone",),
}
"""By the type of a table's column: the staged types that it takes without a loss. All other types take text."""

_ASSIGNED = ("text", "character varying", "bpchar")
"""Text goes into these as it is. The last one is `character`."""

_ROUNDED = ("time without time zone", "time with time zone", "interval", '"bit"', "bit varying")
"""Text becomes one of these by a cast. The assignment to a column with fewer digits or fields rounds it. With another
number of bits it is an error, which does not name the column."""

_CUT = ('"char"', "name")
"""The cast to one of these cuts a text that is too long."""

_JSON = ("json", "jsonb")

_COPIED_AS_TEXT = (*_ASSIGNED, "json")
"""In the binary form of COPY, too, these are their text."""

_WIDENED: Final[Mapping[str, T.DataType]] = {
    "smallint": T.ShortType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "numeric": T.DecimalType(19, 0),
    "double precision": T.DoubleType(),
}
"""By the type of a table's column: what Spark casts the narrower types to that such a column takes."""

_NESTED = (T.StructType, T.MapType, T.ArrayType, T.VariantType)


@dataclass(frozen=True, slots=True)
class StagedColumn:
    """A column on its way.

    Attributes:
        source: its name in the DataFrame.
        name: in the table, and in the staging table.
        staged: its type there.
        cast: the type that it is cast to when it is inserted; None if it needs no cast.
        is_json: whether Spark turns it into JSON.
        kept: what the table's column keeps of a value.
        loss: the types by which the server finds staged texts that the column would not keep: the cast to the first one
            and then to the second one yields another value than the cast to the second one. None if it keeps all.
        widened: the type that Spark casts it to first; None if it stays as it is.
    """

    source: str
    name: str
    staged: str
    cast: str | None
    is_json: bool
    kept: Kept
    loss: tuple[str, str] | None = None
    widened: T.DataType | None = None


def plan(schema: T.StructType, table: Table, key_columns: Sequence[str]) -> tuple[StagedColumn, ...]:
    """How the columns of a DataFrame get into a table.

    Raises:
        InvalidRecordError: a column is missing, is not in the table, is there twice, or has a type that does not fit.
    """
    taken: dict[str, str] = {}
    found = []
    for field in schema.fields:
        column = _target(field.name, table)
        if column.name in taken:
            raise InvalidRecordError(
                "two columns of the DataFrame are for the same column of the table; leave one of them out",
                columns=[taken[column.name], field.name],
                table=str(table.name),
            )
        taken[column.name] = field.name
        found.append(_staged(field, column, table))
    missing = [column.name for column in table.columns if column.is_required and column.name not in taken]
    missing += [name for name in key_columns if name not in taken and name not in missing]
    if missing:
        raise InvalidRecordError(
            "columns are missing in the DataFrame: the table has no value of its own for them, or they are keyColumns",
            missing=missing,
            table=str(table.name),
            columns=schema.fieldNames(),
        )
    return tuple(found)


def _target(name: str, table: Table) -> TableColumn:
    """The table's column of that name; case counts only where the table has several."""
    exact = [column for column in table.columns if column.name == name]
    found = exact or [column for column in table.columns if column.name.lower() == name.lower()]
    if len(found) != 1:
        raise InvalidRecordError(
            "the table has no such column; leave it out with select or drop, or rename it"
            if not found
            else "several columns of the table differ from this one in upper and lower case only; rename it",
            column=name,
            table=str(table.name),
            columns=[column.name for column in found or table.columns],
        )
    if found[0].is_computed:
        raise InvalidRecordError(
            "the database computes this column (GENERATED ALWAYS); leave it out", column=name, table=str(table.name)
        )
    return found[0]


def _staged(field: T.StructField, column: TableColumn, table: Table) -> StagedColumn:
    if column.base in _JSON and isinstance(field.dataType, _NESTED):
        _require_names_as_keys(field, field.dataType, table)
        return StagedColumn(field.name, column.name, "text", column.base, is_json=True, kept=column.kept)
    is_array = column.base.endswith("[]")
    base = column.base.removesuffix("[]")
    kind = field.dataType
    if is_array and isinstance(kind, T.ArrayType):
        kind = kind.elementType
    staged = STAGED.get(type(kind)) if is_array == isinstance(field.dataType, T.ArrayType) else None
    problem = _misfit(kind, staged, base, column)
    if problem is not None:
        raise InvalidRecordError(
            f"the column of the DataFrame does not fit into the table's: {problem}",
            column=field.name,
            type=field.dataType.simpleString(),
            table=str(table.name),
            table_type=column.type,
        )
    brackets = "[]" if is_array else ""
    cast = None if base in TAKES or base in _ASSIGNED else column.base
    loss = (
        (column.exact, column.base) if base in _ROUNDED else (column.base, f"text{brackets}") if base in _CUT else None
    )
    return StagedColumn(
        field.name, column.name, f"{staged}{brackets}", cast, is_json=False, kept=column.kept, loss=loss
    )


_KEYS = (T.StringType, T.NumericType, T.BooleanType)


def _require_names_as_keys(field: T.StructField, kind: T.DataType, table: Table) -> None:
    """Refuse maps whose keys Spark would write into JSON as it stores them: a date as the number of its days."""
    if isinstance(kind, T.MapType) and not isinstance(kind.keyType, _KEYS):
        raise InvalidRecordError(
            "Spark's JSON does not show keys of this type as people write them; make them strings in the query",
            column=field.name,
            type=kind.simpleString(),
            table=str(table.name),
        )
    for part in _parts(kind):
        _require_names_as_keys(field, part, table)


def _parts(kind: T.DataType) -> list[T.DataType]:
    """The types that a type is made of."""
    if isinstance(kind, T.StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return [kind.elementType] if isinstance(kind, T.ArrayType) else []


def _misfit(kind: T.DataType, staged: str | None, base: str, column: TableColumn) -> str | None:
    """Why a value of this type cannot go there; None if it can."""
    if staged is None:
        if isinstance(kind, _NESTED):
            return "structs, maps, variants and arrays of arrays go into columns of type json or jsonb"
        return "cast it to a type that PostgreSQL has"
    accepted = TAKES.get(base, ("text",))
    if staged not in accepted:
        names = sorted({of_spark.typeName() for of_spark, name in STAGED.items() if name in accepted})
        return f"cast it to {' or '.join(names)}"
    digits = kind.scale if isinstance(kind, T.DecimalType) else 0
    if base == "numeric" and column.scale is not None and digits > column.scale:
        return "it has more digits behind the point, and PostgreSQL would round; round it in the query"
    return None


def direct(planned: Sequence[StagedColumn], table: Table) -> tuple[StagedColumn, ...]:
    """The same columns for tasks that copy into the table itself, whose columns take no other type than their own.

    Raises:
        InvalidRecordError: PostgreSQL would have to turn text into a column's type.
    """
    bases = {column.name: column.base for column in table.columns}
    return tuple(_direct(column, bases[column.name], table) for column in planned)


def _direct(column: StagedColumn, base: str, table: Table) -> StagedColumn:
    if base in (column.staged, *_COPIED_AS_TEXT):
        return replace(column, cast=None)
    if base not in _WIDENED:
        raise InvalidRecordError(
            "transaction=task copies into the table itself, and PostgreSQL would have to convert this column; leave "
            "the option out",
            column=column.name,
            table=str(table.name),
            table_type=base,
        )
    return replace(column, staged=base, widened=_WIDENED[base])


def select(df: DataFrame, columns: Sequence[StagedColumn]) -> DataFrame:
    """The rows as the tasks copy them, under names that need no quotation marks: `c0`, `c1`, ..."""
    nested = [column.source for column in columns if column.is_json]
    rows = row_values.checked(df, moments=False, only=nested) if nested else df  # JSON shows other bytes as U+FFFD
    return rows.select(*(_value(column, df).alias(f"c{number}") for number, column in enumerate(columns)))


def _value(column: StagedColumn, df: DataFrame) -> Column:
    value = F.col("`{}`".format(column.source.replace("`", "``")))
    if column.widened is not None:
        return value.cast(column.widened)
    return F.to_json(value, _json_options(df.schema[column.source].dataType)) if column.is_json else value


_MOMENTS = (T.TimestampType, T.TimestampNTZType)


def _json_options(kind: T.DataType) -> dict[str, str]:
    """By default, Spark would write milliseconds."""
    if not _has_moments(kind):
        return {"ignoreNullFields": "false"}
    return {
        "ignoreNullFields": "false",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }


def _has_moments(kind: T.DataType) -> bool:
    return isinstance(kind, _MOMENTS) or any(map(_has_moments, _parts(kind)))
