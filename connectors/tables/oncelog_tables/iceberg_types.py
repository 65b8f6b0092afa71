"""The types and partitions of Iceberg tables in Spark's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg import transforms, types
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from oncelog.errors import UsageError
from oncelog_tables.columns import TableColumn
from oncelog_tables.field_ids import FIELD_ID, FieldIds

SIMPLE: Final[Mapping[type[types.IcebergType], type[T.DataType]]] = {
    types.BooleanType: T.BooleanType,
    types.IntegerType: T.IntegerType,
    types.LongType: T.LongType,
    types.FloatType: T.FloatType,
    types.DoubleType: T.DoubleType,
    types.StringType: T.StringType,
    types.BinaryType: T.BinaryType,
    types.DateType: T.DateType,
    types.TimestampType: T.TimestampNTZType,
    types.TimestamptzType: T.TimestampType,
}
"""Spark's type by Iceberg's, where Spark's parquet files have what Iceberg asks for."""

_WHOLE = (types.IntegerType, types.LongType)
_TIMES = (types.TimestampType, types.TimestamptzType)

TEXT_MARK: Final = "="
"""What stands before a text in the name of a folder: Spark has one name for no value and for an empty text."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A partition of a table, as folders that Spark's writer parts the rows by.

    Attributes:
        name: of the folders.
        label: what errors call the partition: the column, and how it is transformed.
        value: the SQL expression of what they have in their names.
        parse: the partition's value, in Iceberg's terms, from that text.
    """

    name: str
    label: str
    value: str
    parse: Callable[[str], Any]

    def read(self, text: str | None) -> Any:
        """The partition's value; None for rows without one."""
        return None if text is None else self.parse(text)


def columns(schema: Schema) -> list[TableColumn]:
    """The columns of a table."""
    return [_column(field) for field in schema.fields]


def _column(field: types.NestedField) -> TableColumn:
    ids = FieldIds(field.field_id, tuple(_nested_ids(field.field_type)))
    try:
        return TableColumn(field.name, _of(field.field_type), not field.required, ids=ids)
    except _UnwritableTypeError as problem:
        return TableColumn(field.name, T.NullType(), not field.required, ids=ids, unwritable=str(problem))


class _UnwritableTypeError(Exception):
    """Spark's parquet writer has no such type."""


def _of(kind: types.IcebergType) -> T.DataType:
    if isinstance(kind, types.DecimalType):
        return T.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, types.StructType):
        fields = ((one, _of(one.field_type)) for one in kind.fields)
        return T.StructType(
            [T.StructField(one.name, type_, not one.required, {FIELD_ID: one.field_id}) for one, type_ in fields]
        )
    if isinstance(kind, types.ListType):
        return T.ArrayType(_of(kind.element_type), not kind.element_required)
    if isinstance(kind, types.MapType):
        return T.MapType(_of(kind.key_type), _of(kind.value_type), not kind.value_required)
    if type(kind) not in SIMPLE:
        raise _UnwritableTypeError(str(kind))
    return SIMPLE[type(kind)]()


def _nested_ids(kind: types.IcebergType) -> Iterator[int]:
    """The ids of elements of lists, and of keys and values of maps; see `FieldIds`."""
    if isinstance(kind, types.StructType):
        for field in kind.fields:
            yield from _nested_ids(field.field_type)
    elif isinstance(kind, types.ListType):
        yield kind.element_id
        yield from _nested_ids(kind.element_type)
    elif isinstance(kind, types.MapType):
        yield kind.key_id
        yield from _nested_ids(kind.key_type)
        yield kind.value_id
        yield from _nested_ids(kind.value_type)


def folders(table: str, schema: Schema, spec: PartitionSpec) -> list[PartitionFolder | None]:
    """The partitions of a table, in the order of its spec; None for one that has no value for any row.

    A table of version 1 keeps such a one in the place of a partition that was dropped.

    Raises:
        UsageError: the sink cannot compute the values of one.
    """
    found: list[PartitionFolder | None] = []
    for number, field in enumerate(spec.fields):
        source = _source(table, schema, field)
        if isinstance(field.transform, transforms.VoidTransform):
            found.append(None)
            continue
        made = _folder(f"_oncelog_partition_{number}", source, field)
        if made is None or source.field_id not in {one.field_id for one in schema.fields}:
            raise UsageError(
                "the sink cannot write into this Iceberg table: it has a partition of which the sink cannot compute "
                "the value; partition by identity, year, month, day, hour or truncate, and by no part of a struct",
                table=table,
                column=source.name,
                type=str(source.field_type),
                transform=str(field.transform),
            )
        found.append(made)
    return found


def _source(table: str, schema: Schema, field: PartitionField) -> types.NestedField:
    """The column of a partition.

    Raises:
        UsageError: pyiceberg cannot write manifests for this partition.
    """
    column = schema.find_column_name(field.source_id)
    is_void = isinstance(field.transform, transforms.VoidTransform)
    if column is None or (is_void and schema.find_field(field.source_id).required):
        raise UsageError(
            "the sink cannot write into this Iceberg table: the table keeps a partition whose column was dropped, or "
            "a dropped partition whose column must have a value, and pyiceberg writes no manifests for such a "
            "partition; replace the table by a copy of it",
            table=table,
            partition=field.name,
            column=column or "dropped",
        )
    return schema.find_field(field.source_id)


def _folder(name: str, source: types.NestedField, field: PartitionField) -> PartitionFolder | None:
    transform, kind = field.transform, source.field_type
    column = "`{}`".format(source.name.replace("`", "``"))
    label = source.name if isinstance(transform, transforms.IdentityTransform) else f"{transform}({source.name})"
    if isinstance(kind, types.StringType):
        text = f"concat('{TEXT_MARK}', {column})"
        if isinstance(transform, transforms.TruncateTransform):
            text = f"concat('{TEXT_MARK}', substring({column}, 1, {transform.width}))"
        elif not isinstance(transform, transforms.IdentityTransform):
            return None
        return PartitionFolder(name, label, text, lambda found: found.removeprefix(TEXT_MARK))
    if isinstance(kind, types.BooleanType) and isinstance(transform, transforms.IdentityTransform):
        return PartitionFolder(name, label, f"{column} AND true", lambda found: found == "true")
    value = _number(column, transform, kind)
    return None if value is None else PartitionFolder(name, label, value, int)


def _number(column: str, transform: Any, kind: types.IcebergType) -> str | None:
    """The SQL expression of a partition whose value is a whole number."""
    if isinstance(kind, types.DateType):
        days = f"unix_date({column})"
        return days if isinstance(transform, transforms.IdentityTransform) else _calendar(days, transform)
    if isinstance(kind, _TIMES):
        since = f"timestampdiff(MICROSECOND, timestamp_ntz'1970-01-01', {column})"
        micros = f"unix_micros({column})" if isinstance(kind, types.TimestamptzType) else since
        if isinstance(transform, transforms.HourTransform):
            return f"({micros} - pmod({micros}, 3600000000)) div 3600000000"
        return _calendar(f"({micros} - pmod({micros}, 86400000000)) div 86400000000", transform)
    if isinstance(kind, _WHOLE) and isinstance(transform, transforms.IdentityTransform):
        return f"{column} + 0"
    if isinstance(kind, _WHOLE) and isinstance(transform, transforms.TruncateTransform):
        return f"{column} - pmod({column}, {transform.width})"
    return None


def _calendar(days: str, transform: Any) -> str | None:
    """The days, months or years since 1970, from the expression of the days."""
    day = f"date_from_unix_date(int({days}))"
    if isinstance(transform, transforms.DayTransform):
        return days
    if isinstance(transform, transforms.MonthTransform):
        return f"(year({day}) - 1970) * 12 + month({day}) - 1"
    return f"year({day}) - 1970" if isinstance(transform, transforms.YearTransform) else None
