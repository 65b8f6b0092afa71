"""The field ids of a table's columns, which each file of an Iceberg table must have.

Iceberg finds a column in a file by its id, whatever the column is called now. In a file without ids its readers go by
names, and a name may belong to another column by then: a column is renamed and one is added with the old name, or it is
dropped and added again. So the ids are in the files, those of lists, maps and structs too, and they come from the table
alone: a DataFrame that was read from parquet has ids of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

FIELD_ID: Final = "parquet.field.id"
"""Metadata of a column, or of a struct's field: Spark's parquet writer writes it as the field's id."""

_PROMOTED: Final[Mapping[type[T.DataType], type[T.DataType]]] = {T.LongType: T.IntegerType, T.DoubleType: T.FloatType}
"""By the type that a column may get: the one that it had. Readers widen the values. A decimal may get more digits."""


@dataclass(frozen=True, slots=True)
class FieldIds:
    """The ids of a column.

    Attributes:
        own: of the column itself.
        nested: of the elements of lists, and the keys and values of maps, within it: each before those within it. In
            Spark they have no metadata. Fields of structs have, in the column's type.
    """

    own: int
    nested: tuple[int, ...] = ()


def metadata(ids: FieldIds | None) -> dict[str, int]:
    """The metadata of a column with these ids."""
    return {} if ids is None else {FIELD_ID: ids.own}


def are_in(written: T.StructType) -> bool:
    """Whether files of this schema have field ids."""
    return all(FIELD_ID in field.metadata for field in written.fields)


def unreadable(written: T.StructType, now: T.StructType) -> tuple[T.StructField, T.DataType] | None:
    """The first field that keeps readers of a table from reading files that were written for an earlier schema.

    Args:
        written: the schema of the files, with ids.
        now: that of the table.

    Returns:
        The field, as the files have it if they have it, and its type in the table; None if the files can be read.
    """
    files = {field.metadata[FIELD_ID]: field for field in written.fields}
    for field in now.fields:
        before = files.get(field.metadata[FIELD_ID])
        if before is None:
            if not field.nullable:
                return field, field.dataType
        elif (before.nullable and not field.nullable) or not _is_readable(before.dataType, field.dataType):
            return before, field.dataType
    return None


def _is_readable(written: T.DataType, now: T.DataType) -> bool:
    if isinstance(written, T.StructType) and isinstance(now, T.StructType):
        return unreadable(written, now) is None
    if isinstance(written, T.ArrayType) and isinstance(now, T.ArrayType):
        return (now.containsNull or not written.containsNull) and _is_readable(written.elementType, now.elementType)
    if isinstance(written, T.MapType) and isinstance(now, T.MapType):
        return (
            (now.valueContainsNull or not written.valueContainsNull)
            and _is_readable(written.keyType, now.keyType)
            and _is_readable(written.valueType, now.valueType)
        )
    if isinstance(written, T.DecimalType) and isinstance(now, T.DecimalType):
        return written.scale == now.scale and written.precision <= now.precision
    return written == now or _PROMOTED.get(type(now)) is type(written)
