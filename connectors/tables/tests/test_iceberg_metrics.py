"""What manifests say of files: bounds that hold for each value, whatever parts of a file say of themselves."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
)

from oncelog.errors import UsageError
from oncelog_tables import iceberg_metrics
from oncelog_tables.iceberg_metrics import Metrics, MetricsPlan
from tests.support import strategies


def file_of(*parts: list[Any], kind: pa.DataType, field_id: int = 1) -> pq.FileMetaData:
    """The footer of a file with such values, each list a part of the file."""
    schema = pa.schema([pa.field("c", kind, metadata={"PARQUET:field_id": str(field_id)})])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema) as writer:
        for part in parts:
            writer.write_table(pa.table({"c": pa.array(part, kind)}, schema))
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def metrics_of(footer: pq.FileMetaData, kind: PrimitiveType, **properties: str) -> Metrics:
    return MetricsPlan(Schema(NestedField(1, "c", kind)), properties).of_file(footer)


TEXTS = st.text("a\ud7ff\U0010ffff", min_size=15, max_size=18) | strategies.texts(3)
BYTES = st.lists(st.sampled_from([0, 0xFE, 0xFF]), min_size=15, max_size=18).map(bytes) | strategies.byte_strings(3)


@pytest.mark.parametrize(
    ("values", "kind", "of_table"), [(TEXTS, pa.string(), StringType()), (BYTES, pa.binary(), BinaryType())]
)
def test_bounds_that_are_cut_hold_for_each_value(values: Any, kind: pa.DataType, of_table: PrimitiveType) -> None:
    @given(st.lists(st.lists(values, min_size=1, max_size=3), min_size=1, max_size=3))
    def holds(parts: list[list[Any]]) -> None:
        metrics = metrics_of(file_of(*parts, kind=kind), of_table)
        found = [value for part in parts for value in part]

        assert metrics.lower_bounds[1] <= min(_raw(value) for value in found)
        assert len(from_bytes(of_table, metrics.lower_bounds[1])) <= 16
        greatest = max(_raw(value) for value in found)
        if 1 in metrics.upper_bounds:
            assert metrics.upper_bounds[1] >= greatest
            assert len(from_bytes(of_table, metrics.upper_bounds[1])) <= 16
        else:
            assert greatest[:16].strip(b"\xff") == b"" or greatest.decode().startswith("\U0010ffff" * 16)

    holds()


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("value", "upper"),
    [
        ("x" * 15 + "\ud7ff" + "more", "x" * 15 + "\ue000"),
        ("x" * 14 + "\ud7ff\U0010ffff" + "more", "x" * 14 + "\ue000"),
        ("\U0010ffff" * 16, "\U0010ffff" * 16),
        ("\U0010ffff" * 17, None),
        (b"\x01" * 15 + b"\xff\x00", b"\x01" * 14 + b"\x02"),
        (b"\xff" * 17, None),
        ("", ""),
    ],
)
def test_an_upper_bound_that_is_cut_is_the_next_text_or_bytes(value: str | bytes, upper: str | bytes | None) -> None:
    is_text = isinstance(value, str)
    footer = file_of([value], kind=pa.string() if is_text else pa.binary())

    bounds = metrics_of(footer, StringType() if is_text else BinaryType()).upper_bounds

    assert bounds.get(1) == (None if upper is None else _raw(upper))


@pytest.mark.parametrize(
    ("kind", "of_table", "values"),
    [
        (pa.bool_(), BooleanType(), [True, False]),
        (pa.int32(), IntegerType(), [-(2**31), 2**31 - 1]),
        (pa.int32(), LongType(), [-5, 7]),
        (pa.int64(), LongType(), [-(2**63), 2**63 - 1]),
        (pa.date32(), DateType(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (pa.timestamp("us"), TimestampType(), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001
        (pa.decimal128(5, 2), DecimalType(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
        (pa.decimal128(38, 10), DecimalType(38, 10), [Decimal("-1E-10"), Decimal("9" * 28 + "." + "9" * 10)]),
    ],
)
def test_bounds_of_other_types_are_the_values(kind: pa.DataType, of_table: PrimitiveType, values: list[Any]) -> None:
    metrics = metrics_of(file_of([values[0], None], [None], [values[1]], kind=kind), of_table)

    assert metrics.record_count == 4
    assert metrics.value_counts == {1: 4}
    assert metrics.null_value_counts == {1: 2}
    least, greatest = metrics.lower_bounds[1], metrics.upper_bounds[1]
    shown = [from_bytes(of_table, bound) for bound in (least, greatest)]
    assert shown == sorted(_internal(value) for value in values)


def _internal(value: Any) -> Any:
    """As Iceberg counts: days, or microseconds, since 1970."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def test_what_one_part_of_a_file_does_not_say_is_not_said_of_the_file() -> None:
    """Parquet leaves out the statistics of a part with long values, and those of the other part are too narrow."""
    footer = file_of(["b", None], ["a" * 5000, "z" * 5000], kind=pa.string())
    assert footer.row_group(0).column(0).statistics.has_min_max
    assert not footer.row_group(1).column(0).statistics.has_min_max

    metrics = metrics_of(footer, StringType())

    assert metrics.lower_bounds == {}
    assert metrics.upper_bounds == {}
    assert metrics.value_counts == {1: 4}


def test_floats_have_counts_and_no_bounds() -> None:
    metrics = metrics_of(file_of([math.nan, 1.0, None], [-0.0, 0.0], kind=pa.float64()), DoubleType())

    assert (metrics.value_counts, metrics.null_value_counts) == ({1: 5}, {1: 1})
    assert (metrics.lower_bounds, metrics.upper_bounds) == ({}, {})


@pytest.mark.parametrize(
    ("mode", "counts", "bound"),
    [("none", {}, None), ("counts", {1: 1}, None), ("truncate(3)", {1: 1}, b"xyc"), ("full", {1: 1}, b"xyb" * 9)],
)
def test_the_table_says_what_it_wants_to_know(mode: str, counts: dict[int, int], bound: bytes | None) -> None:
    footer = file_of(["xyb" * 9], kind=pa.string())

    metrics = metrics_of(footer, StringType(), **{"write.metadata.metrics.default": mode})

    assert (metrics.value_counts, metrics.upper_bounds.get(1)) == (counts, bound)
    assert set(metrics.column_sizes) == {1}


def test_metrics_belong_to_the_column_with_the_id_and_not_to_that_with_the_name() -> None:
    schema = Schema(NestedField(1, "renamed", StringType()), NestedField(2, "c", StringType()))

    metrics = MetricsPlan(schema, {}).of_file(file_of(["a"], kind=pa.string()))

    assert metrics.value_counts == {1: 1}


NESTED = Schema(NestedField(1, "c", ListType(5, StructType(NestedField(6, "x", StringType())))))


def nested(element: int | None, x: int | None) -> pa.DataType:
    def field(name: str, kind: pa.DataType, field_id: int | None) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)} if field_id else None)

    return pa.list_(field("element", pa.struct([field("x", pa.string(), x)]), element))


@pytest.mark.parametrize(
    ("field_id", "element", "x", "column"),
    [(2, 5, 6, "c"), (1, None, 6, "c.element"), (1, 5, None, "c.element.x"), (1, 6, 5, "c.element")],
)
def test_a_file_without_the_tables_field_ids_is_refused(
    field_id: int, element: int | None, x: int | None, column: str, tmp_path: Path
) -> None:
    iceberg_metrics.check_ids(file_of([], kind=nested(5, 6)), NESTED, "lake.t")

    with pytest.raises(UsageError, match=f"did not write the table's field ids.*column='{column}'"):
        iceberg_metrics.check_ids(file_of([], kind=nested(element, x), field_id=field_id), NESTED, "lake.t")
