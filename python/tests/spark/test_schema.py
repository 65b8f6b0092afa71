"""The columns of the source and the sinks: what Spark is promised, and what rows are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from oncelog.errors import InvalidOptionError, InvalidRecordError
from oncelog.log.codec import RECORD_SCHEMA
from oncelog.spark.schema import (
    check_sink_schema,
    read_columns,
    read_schema,
    stored_columns,
    to_read_batch,
    to_sink_columns,
)
from tests.support.spark.releases import RELEASE

RECORDS = pa.RecordBatch.from_pylist(
    [
        {"key": b"k", "value": b"v", "headers": [{"key": "h", "value": None}], "timestamp_ms": 1_700_000_000_123},
        {"key": None, "value": None, "headers": None, "timestamp_ms": 0},
    ],
    schema=RECORD_SCHEMA,
)
HEADERS = "headers array<struct<key:string,value:binary>>"


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """Spark reads DDL with its JVM."""


def columns_of(ddl: str) -> StructType:
    columns = StructType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    return columns


def shown(records: pa.RecordBatch, first_offset: int, *, include_headers: bool) -> pa.RecordBatch:
    columns = read_columns(read_schema(include_headers=include_headers))
    return to_read_batch(records, "t", 3, first_offset, columns)


@pytest.mark.parametrize("include_headers", [False, True])
def test_record_batches_match_to_the_last_flag_what_spark_makes_of_the_schema(include_headers: bool) -> None:
    timezone: dict[str, Any] = {} if RELEASE < (4, 2) else {"timezone": "UTC"}  # earlier ones have no other
    wanted = to_arrow_schema(read_schema(include_headers=include_headers), **timezone)

    batch = shown(RECORDS, 100, include_headers=include_headers)

    assert batch.schema.equals(wanted)
    batch.validate(full=True)


def test_records_become_the_rows_of_sparks_kafka_source() -> None:
    rows = shown(RECORDS, 100, include_headers=True).to_pylist()

    place = {"topic": "t", "partition": 3, "timestampType": 0}
    assert rows == [
        {
            "key": b"k",
            "value": b"v",
            "offset": 100,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "headers": [{"key": "h", "value": None}],
            **place,
        },
        {
            "key": None,
            "value": None,
            "offset": 101,
            "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
            "headers": None,
            **place,
        },
    ]


def test_a_slice_of_records_becomes_its_own_rows_only() -> None:
    rows = shown(RECORDS.slice(1), 101, include_headers=False)

    assert rows.column("offset").to_pylist() == [101]
    assert rows.column("timestamp").to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC)]


def test_a_record_without_headers_shows_null_however_it_was_written() -> None:
    headers = [None, [], [{"key": "h", "value": b"1"}], []]
    rows = [{"key": None, "value": b"v", "headers": some, "timestamp_ms": 0} for some in headers]
    records = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    batch = shown(records, 0, include_headers=True)

    assert batch.column("headers").to_pylist() == [None, None, [{"key": "h", "value": b"1"}], None]
    batch.validate(full=True)


def test_only_the_columns_that_were_named_are_read_and_shown() -> None:
    columns = read_columns(columns_of("value binary, offset bigint"))

    batch = to_read_batch(RECORDS.select(stored_columns(columns)), "t", 3, 100, columns)

    assert stored_columns(columns) == ("value",)
    assert batch.to_pylist() == [{"value": b"v", "offset": 100}, {"value": None, "offset": 101}]


@pytest.mark.parametrize("columns", ["values binary", "value string", "offset int"])
def test_a_column_that_the_source_does_not_have_is_refused_by_name(columns: str) -> None:
    with pytest.raises(InvalidOptionError, match=columns.split(maxsplit=1)[0]):
        read_columns(columns_of(columns))


# Sinks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        "value binary",
        "value string",
        "key string, value binary",
        f"key binary, value string, partition int, timestamp timestamp, {HEADERS}",
        "value string, topic int",  # the option comes before the column, so its type does not matter
        "value string, offset long, timestampType int, more array<int>",
    ],
)
def test_a_sink_with_a_topic_takes_rows_with_a_value(columns: str) -> None:
    check_sink_schema(columns_of(columns), topic="t")


def test_a_sink_without_a_topic_takes_rows_that_name_theirs() -> None:
    check_sink_schema(columns_of("value string, topic string"), topic=None)


@pytest.mark.parametrize(
    ("columns", "topic", "missing"),
    [("key binary", "t", "value"), ("Value binary", "t", "value"), ("value binary", None, "topic")],
)
def test_rows_that_lack_a_column_are_refused_with_its_name_and_those_found(
    columns: str, topic: str | None, missing: str
) -> None:
    schema = columns_of(columns)

    with pytest.raises(InvalidRecordError) as caught:
        check_sink_schema(schema, topic)

    assert (caught.value.fields["column"], caught.value.fields["found"]) == (missing, schema.names)


@pytest.mark.parametrize(
    ("column", "found", "wanted"),
    [
        ("value long", "bigint", "binary or string"),
        ("value void", "void", "binary or string"),
        ("key int", "int", "binary or string"),
        ("topic binary", "binary", "string"),
        ("partition long", "bigint", "int or smallint or tinyint"),
        ("partition string", "string", "int or smallint or tinyint"),
        ("timestamp long", "bigint", "timestamp"),
        ("timestamp timestamp_ntz", "timestamp_ntz", "timestamp"),
        ("headers map<string,binary>", "map<string,binary>", "array<struct<key:string,value:binary>>"),
        (
            "headers array<struct<key:string,value:string>>",
            "array<struct<key:string,value:string>>",
            "array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_a_column_of_a_wrong_type_is_refused_with_the_type_found_and_the_one_wanted(
    column: str, found: str, wanted: str
) -> None:
    name = column.partition(" ")[0]
    others = [other for other in ("value string", "topic string") if not other.startswith(name)]

    with pytest.raises(InvalidRecordError) as caught:
        check_sink_schema(columns_of(", ".join([column, *others])), topic=None)

    assert caught.value.fields == {"column": name, "found": found, "wanted": wanted}


def test_a_column_that_is_there_twice_is_refused() -> None:
    schema = columns_of("value string").add(columns_of("value binary")["value"])

    with pytest.raises(InvalidRecordError) as caught:
        check_sink_schema(schema, topic="t")

    assert caught.value.fields == {"column": "value", "found": ["string", "binary"]}


def test_a_sink_takes_its_columns_and_no_others(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], f"offset long, value string, partition int, topic string, key binary, {HEADERS}")

    assert to_sink_columns(rows, topic=None).columns == ["value", "key", "topic", "partition", "headers"]
    assert to_sink_columns(rows, topic="t").columns == ["value", "key", "partition", "headers"]


def test_null_headers_go_to_python_as_empty_ones_and_others_as_they_are(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", None), ("b", []), ("c", [("h", b"1"), ("h", None)])], f"value string, {HEADERS}"
    )

    found = {row["value"]: row["headers"] for row in to_sink_columns(rows, topic="t").collect()}

    assert found == {"a": [], "b": [], "c": [("h", b"1"), ("h", None)]}
