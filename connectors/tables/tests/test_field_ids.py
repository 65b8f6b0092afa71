"""Which changes of an Iceberg table's columns let readers read files that were written before, by field ids."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from oncelog.errors import InvalidRecordError
from oncelog_tables import columns
from oncelog_tables.columns import TableColumn
from oncelog_tables.field_ids import FIELD_ID, FieldIds

INT, LONG, FLOAT, DOUBLE, TEXT = T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.StringType()

Field = tuple[int, str, T.DataType, bool]


def field(field_id: int, name: str, type_: T.DataType, is_nullable: bool = True) -> Field:
    return field_id, name, type_, is_nullable


def struct(*fields: Field) -> T.StructType:
    return T.StructType(
        [T.StructField(name, type_, nullable, {FIELD_ID: one}) for one, name, type_, nullable in fields]
    )


def check(written: list[Field], now: list[Field]) -> None:
    of_table = [TableColumn(name, type_, nullable, ids=FieldIds(one)) for one, name, type_, nullable in now]
    columns.check_readable(struct(*written), "lake.t", of_table)


@pytest.mark.parametrize(
    ("written", "now"),
    [
        ([field(1, "a", TEXT)], [field(1, "renamed", TEXT)]),
        ([field(1, "a", TEXT)], [field(1, "renamed", TEXT), field(2, "a", INT)]),
        ([field(1, "a", TEXT), field(2, "b", INT)], [field(2, "b", INT), field(1, "a", TEXT)]),
        ([field(1, "a", TEXT), field(2, "b", INT)], [field(2, "b", INT)]),
        ([field(1, "a", TEXT)], [field(2, "a", INT)]),
        ([field(1, "a", INT)], [field(1, "a", LONG)]),
        ([field(1, "a", FLOAT)], [field(1, "a", DOUBLE)]),
        ([field(1, "a", T.DecimalType(5, 2))], [field(1, "a", T.DecimalType(38, 2))]),
        ([field(1, "a", TEXT, False)], [field(1, "a", TEXT)]),
        ([field(1, "a", TEXT, False)], [field(1, "a", TEXT, False)]),
        (
            [field(1, "s", struct(field(2, "x", INT)))],
            [field(1, "s", struct(field(3, "x", TEXT), field(2, "y", LONG)))],
        ),
        ([field(1, "l", T.ArrayType(INT, False))], [field(1, "l", T.ArrayType(LONG))]),
        (
            [field(1, "m", T.MapType(TEXT, struct(field(4, "x", FLOAT))))],
            [field(1, "m", T.MapType(TEXT, struct(field(4, "y", DOUBLE))))],
        ),
    ],
)
def test_files_are_read_by_the_table_as_it_is_now(written: list[Field], now: list[Field]) -> None:
    check(written, now)


@pytest.mark.parametrize(
    ("written", "now", "column"),
    [
        ([field(1, "a", TEXT)], [field(1, "a", TEXT, False)], "a"),
        ([field(1, "a", TEXT)], [field(1, "a", TEXT), field(2, "b", INT, False)], "b"),
        ([field(1, "a", LONG)], [field(1, "a", INT)], "a"),
        ([field(1, "a", INT)], [field(1, "a", TEXT)], "a"),
        ([field(1, "a", T.DecimalType(5, 2))], [field(1, "a", T.DecimalType(6, 3))], "a"),
        ([field(1, "s", struct(field(2, "x", INT)))], [field(1, "s", struct(field(2, "x", INT, False)))], "s"),
        ([field(1, "l", T.ArrayType(INT))], [field(1, "l", T.ArrayType(INT, False))], "l"),
        ([field(1, "m", T.MapType(TEXT, INT))], [field(1, "m", T.MapType(TEXT, TEXT))], "m"),
    ],
)
def test_files_that_the_table_would_read_as_something_else_are_refused(
    written: list[Field], now: list[Field], column: str
) -> None:
    with pytest.raises(InvalidRecordError, match=f"has another type or name now.*column='{column}'"):
        check(written, now)


def test_a_batch_that_is_not_decided_is_refused_after_any_change() -> None:
    written = struct(field(1, "a", struct(field(2, "x", TEXT))))
    of_table = TableColumn("a", struct(field(2, "x", TEXT)), True, ids=FieldIds(1))
    columns.check_unchanged(written, "lake.t", [of_table])

    for changed in (
        TableColumn("a", struct(field(2, "x", TEXT)), True, ids=FieldIds(7)),
        TableColumn("a", struct(field(8, "x", TEXT)), True, ids=FieldIds(1)),
        TableColumn("renamed", struct(field(2, "x", TEXT)), True, ids=FieldIds(1)),
    ):
        with pytest.raises(InvalidRecordError):
            columns.check_unchanged(written, "lake.t", [changed])
