"""Which columns of a DataFrame go into which columns of a table, and what the table must have for it.

Spark's own parquet writer writes the values, so a value is what it is: a column goes into one of the same type, or of a
wider one of the same kind. Where the table wants a value in each row and the DataFrame does not promise one, the plan
checks it. The statistics of the files cannot: parquet leaves them out where values are long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812 - the same

from oncelog.errors import InvalidRecordError
from oncelog_tables import field_ids
from oncelog_tables.field_ids import FIELD_ID, FieldIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WIDENED: Final[Mapping[type[T.DataType], tuple[type[T.DataType], ...]]] = {
    T.ShortType: (T.ByteType,),
    T.IntegerType: (T.ByteType, T.ShortType),
    T.LongType: (T.ByteType, T.ShortType, T.IntegerType),
    T.DoubleType: (T.FloatType,),
}
"""By the type of a table's column: the narrower ones that it takes, too. A decimal takes those that it has room for."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type: in Spark's terms.
        is_nullable: whether it may be without a value.
        has_default: whether a row that brings no value gets one that is not null.
        ids: of the column in the table's files; None if files know columns by their names.
        unwritable: the table's own name of a type that Spark's writer does not have.
        names_folder: whether a commit that merges rows names folders after the values.
    """

    name: str
    type: T.DataType
    is_nullable: bool
    has_default: bool = False
    ids: FieldIds | None = None
    unwritable: str | None = None
    names_folder: bool = False


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column on its way.

    Attributes:
        source: its name in the DataFrame.
        name, type: in the table, and in the files.
        is_nullable: whether the table lets it be without a value.
        is_checked: whether the table wants a value in each row, which the DataFrame's schema does not promise.
        ids: see `TableColumn`.
        names_folder: see `TableColumn`.
    """

    source: str
    name: str
    type: T.DataType
    is_nullable: bool
    is_checked: bool
    ids: FieldIds | None = None
    names_folder: bool = False

    @property
    def metadata(self) -> dict[str, int]:
        """All metadata that Spark's writer sees of the column, whatever the DataFrame's column has."""
        return field_ids.metadata(self.ids)


def plan(
    schema: T.StructType, table: str, columns: Sequence[TableColumn], key_columns: Collection[str] = ()
) -> tuple[WrittenColumn, ...]:
    """How the columns of a DataFrame get into a table, in the table's order.

    Args:
        table: its name, for errors.
        columns: of the table.
        key_columns: those of them by which rows are replaced.

    Raises:
        InvalidRecordError: a column is missing, is not in the table, is there twice, or has a type that does not fit.
    """
    found: dict[str, WrittenColumn] = {}
    for field in schema.fields:
        column = named(field.name, table, columns)
        if column.name in found:
            raise InvalidRecordError(
                "two columns of the DataFrame are for the same column of the table; leave one of them out",
                columns=[found[column.name].source, field.name],
                table=table,
            )
        found[column.name] = _written(field, column, table)
    missing = [
        column.name
        for column in columns
        if column.name not in found and (column.has_default or not column.is_nullable or column.name in key_columns)
    ]
    if missing:
        raise InvalidRecordError(
            "columns are missing in the DataFrame: the table wants a value in each row, has a default that the sink "
            "does not fill in, or they are keyColumns",
            missing=missing,
            table=table,
            columns=schema.fieldNames(),
        )
    return tuple(found[column.name] for column in columns if column.name in found)


def named(name: str, table: str, columns: Sequence[TableColumn]) -> TableColumn:
    """The table's column of that name; case counts only where the table has several.

    Raises:
        InvalidRecordError: there is none, or there are several.
    """
    exact = [column for column in columns if column.name == name]
    found = exact or [column for column in columns if column.name.lower() == name.lower()]
    if len(found) != 1:
        raise InvalidRecordError(
            "the table has no such column; leave it out with select or drop, or rename it"
            if not found
            else "several columns of the table differ from this one in upper and lower case only; rename it",
            column=name,
            table=table,
            columns=[column.name for column in found or columns],
        )
    return found[0]


def _written(field: T.StructField, column: TableColumn, table: str) -> WrittenColumn:
    if column.unwritable is not None:
        raise InvalidRecordError(
            "Spark's parquet writer has no such type as the table's column; leave the column out of the DataFrame, or "
            "make it a string in the table",
            column=field.name,
            type=column.unwritable,
            table=table,
        )
    problem = None if _is_widened(field.dataType, column.type) else _misfit(field.dataType, column.type)
    if problem is not None:
        raise InvalidRecordError(
            f"the column of the DataFrame does not fit into the table's: {problem}",
            column=field.name,
            type=field.dataType.simpleString(),
            table=table,
            table_type=column.type.simpleString(),
        )
    is_checked = field.nullable and not column.is_nullable
    return WrittenColumn(
        field.name, column.name, column.type, column.is_nullable, is_checked, column.ids, column.names_folder
    )


def _is_widened(given: T.DataType, wanted: T.DataType) -> bool:
    if isinstance(given, T.DecimalType) and isinstance(wanted, T.DecimalType):
        more = wanted.scale - given.scale
        return 0 <= more <= wanted.precision - given.precision
    return type(given) in WIDENED.get(type(wanted), ())


def _misfit(given: T.DataType, wanted: T.DataType) -> str | None:
    """Why a value of this type cannot go there as it is; None if it can."""
    if isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        if given.containsNull and not wanted.containsNull:
            return "its arrays may contain nulls, the table's must not"
        return _misfit(given.elementType, wanted.elementType)
    if isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        if given.valueContainsNull and not wanted.valueContainsNull:
            return "its maps may contain nulls, the table's must not"
        return _misfit(given.keyType, wanted.keyType) or _misfit(given.valueType, wanted.valueType)
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        return _misfit_of_structs(given, wanted)
    return None if given == wanted else f"cast it to {wanted.simpleString()}"


def _misfit_of_structs(given: T.StructType, wanted: T.StructType) -> str | None:
    if given.fieldNames() != wanted.fieldNames():
        return f"its structs have other fields than {wanted.simpleString()}, or in another order"
    for mine, other in zip(given.fields, wanted.fields, strict=True):
        if mine.nullable and not other.nullable:
            return f"the field {mine.name} of a struct may be null, the table's must not"
        problem = _misfit(mine.dataType, other.dataType)
        if problem is not None:
            return problem
    return None


def written_schema(columns: Sequence[WrittenColumn]) -> T.StructType:
    """The schema of the rows in the files, whose values have been checked."""
    return T.StructType(
        [T.StructField(column.name, column.type, column.is_nullable, column.metadata) for column in columns]
    )


def check_unchanged(written: T.StructType, table: str, columns: Sequence[TableColumn]) -> None:
    """Refuse a table whose columns are no longer those that a batch was written for.

    Raises:
        InvalidRecordError: see `plan`; and nothing is widened, or checked, any more.
    """
    for column in plan(written, table, columns):
        field = written[column.source]
        has_ids = FIELD_ID in field.metadata
        is_same = column.type == field.dataType if has_ids else _misfit(field.dataType, column.type) is None
        is_other = has_ids and field.metadata[FIELD_ID] != column.metadata.get(FIELD_ID)
        if column.is_checked or column.name != field.name or not is_same or is_other:
            raise _changed(field, column.type, table)


def of_table(columns: Sequence[TableColumn]) -> T.StructType:
    """The schema of a table, with the ids of its columns if it has them."""
    return T.StructType(
        [T.StructField(one.name, one.type, one.is_nullable, field_ids.metadata(one.ids)) for one in columns]
    )


def check_readable(written: T.StructType, table: str, columns: Sequence[TableColumn]) -> None:
    """Refuse a table whose readers would take the files of a decided batch for something else.

    Where files have field ids, readers find a column that was renamed or moved, widen values as the table's column was
    widened, and leave out the values of a column that was dropped.

    Raises:
        InvalidRecordError: see above.
    """
    if field_ids.are_in(written):
        unreadable = field_ids.unreadable(written, of_table(columns))
        if unreadable is not None:
            raise _changed(*unreadable, table)
    else:
        check_unchanged(written, table, columns)


def _changed(field: T.StructField, now: T.DataType, table: str) -> InvalidRecordError:
    return InvalidRecordError(
        "a column of the table has another type or name now, is another column of the same name, or may no longer be "
        "without a value",
        column=field.name,
        type=field.dataType.simpleString(),
        table=table,
        table_type=now.simpleString(),
    )


def select(df: DataFrame, columns: Sequence[WrittenColumn]) -> DataFrame:
    """The rows as the files have them."""
    sources = (F.col("`{}`".format(column.source.replace("`", "``"))) for column in columns)
    widened = (*WIDENED, T.DecimalType)
    return df.select(
        *(
            # A cast also gives the fields of structs the table's metadata, in place of what the DataFrame has there.
            (source.cast(column.type) if column.ids or isinstance(column.type, widened) else source).alias(
                column.name, metadata=column.metadata
            )
            for source, column in zip(sources, columns, strict=True)
        )
    )
