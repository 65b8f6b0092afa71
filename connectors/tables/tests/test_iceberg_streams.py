"""Queries into Iceberg tables, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils import datetime as iceberg_time
from pyspark.sql import SparkSession

from lake_queries import TABLE, IcebergQuery
from lakes import create_iceberg, iceberg_files, iceberg_rows
from oncelog.errors import InvalidRecordError, UsageError
from tests.support.spark.queries import forget_last_commit

PARTITIONED = Schema(
    NestedField(1, "flag", BooleanType()),
    NestedField(2, "id", IntegerType()),
    NestedField(3, "long", LongType()),
    NestedField(4, "text", StringType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "at", TimestamptzType()),
    NestedField(7, "local", TimestampType()),
)

ROWS = """
SELECT true flag, 1 id, -7L long, 'ab/c=d' text, date'1969-12-31' day,
 timestamp'1969-12-31 23:59:59.999999Z' at, timestamp_ntz'1969-12-31 23:59:59.999999' local
UNION ALL SELECT false, 2, 25, '', date'2026-03-01', timestamp'2026-03-01 00:00:00Z', timestamp_ntz'2026-03-01 13:00:00'
UNION ALL SELECT null, 3, null, null, null, null, null
UNION ALL SELECT true, 4, 9223372036854775807L, '\U0010ffff\ud7ff', date'9999-12-31',
 timestamp'9999-12-31 23:59:59.999999Z', timestamp_ntz'9999-12-31 23:59:59.999999'
UNION ALL SELECT true, 5, -9223372036854775799L, '__HIVE_DEFAULT_PARTITION__', date'0001-01-01',
 timestamp'0001-01-01 00:00:00Z', timestamp_ntz'0001-01-01 00:00:00.000001'
"""


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[IcebergQuery]:
    found = IcebergQuery(spark, tmp_path)
    yield found
    found.close()


@pytest.mark.sampled("tables")
def test_rows_are_appended_once_though_spark_runs_the_batch_again(query: IcebergQuery) -> None:
    create_iceberg(query.catalog, TABLE, pa.schema({"id": pa.int64(), "value": pa.string(), "more": pa.string()}))
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.add({"id": 3, "value": "c"})
    query.run_into(query.sink())
    assert sorted((report.rows, report.is_replay) for report in query.reports) == [(1, False), (2, False)]

    forget_last_commit(query.checkpoint)
    query.run_into(query.sink())

    assert [report.is_replay for report in query.reports] == [True]
    assert sorted((row["id"], row["value"]) for row in iceberg_rows(query.metadata)) == [(1, "a"), (2, "b"), (3, "c")]


def spec(*fields: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    """A spec of these columns, by their ids, and transforms."""
    return PartitionSpec(
        *(PartitionField(source, 1000 + at, transform, f"p{at}") for at, (source, transform) in enumerate(fields))
    )


IDENTITY: Transform[Any, Any] = IdentityTransform()


def test_the_partitions_of_files_are_those_that_iceberg_computes(query: IcebergQuery) -> None:
    """Each row is in a file of its own: the value of its partition is what pyiceberg's transform makes of it."""
    fields: list[tuple[int, Transform[Any, Any]]] = [(source, IDENTITY) for source in (1, 2, 3, 4, 5)]
    fields += [(3, TruncateTransform(10)), (4, TruncateTransform(2)), (5, MonthTransform()), (5, YearTransform())]
    of_times: list[Transform[Any, Any]] = [YearTransform(), MonthTransform(), DayTransform(), HourTransform()]
    fields += [(source, transform) for source in (6, 7) for transform in of_times]
    made = spec(*fields)
    create_iceberg(query.catalog, TABLE, PARTITIONED, partition_spec=made)
    rows = query.spark.sql(ROWS)

    query.write_rows(query.sink(), rows)

    expected = []
    for row in rows.orderBy("id").toArrow().to_pylist():
        values = {}
        for field in made.fields:
            column = PARTITIONED.find_field(field.source_id)
            value = row[column.name]
            if value is not None:
                value = field.transform.transform(column.field_type)(_internal(value))
            values[field.name] = value
        expected.append(values)
    found = sorted((file["partition"] for file in iceberg_files(query.metadata)), key=lambda one: one["p1"])
    assert [{name: _internal(value) for name, value in one.items()} for one in found] == expected


def _internal(value: Any) -> Any:
    """A value as Iceberg's transforms take it: days, and microseconds, since 1970."""
    if isinstance(value, dt.datetime):
        return iceberg_time.datetime_to_micros(value)
    return iceberg_time.date_to_days(value) if isinstance(value, dt.date) else value


@pytest.mark.sampled("tables")
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ((2, BucketTransform(4)), r"cannot compute the value; .*column='id'.*bucket\[4\]"),
        ((6, IDENTITY), "cannot compute the value; .*column='at'.*transform='identity'"),
    ],
)
def test_a_partition_that_the_sink_cannot_compute_is_refused(
    query: IcebergQuery, field: tuple[int, Transform[Any, Any]], said: str
) -> None:
    create_iceberg(query.catalog, TABLE, PARTITIONED, partition_spec=spec(field))
    query.add({"id": 1})

    with pytest.raises(UsageError, match=said):
        query.run_into(query.sink(), query.source().selectExpr("id"))


@pytest.mark.sampled("tables")
def test_columns_that_do_not_fit_are_named(query: IcebergQuery) -> None:
    both = NestedField(1, "Id", IntegerType()), NestedField(2, "id", IntegerType())
    schema = Schema(*both, NestedField(3, "long", LongType(), required=True))
    create_iceberg(query.catalog, TABLE, schema)
    query.add({"id": 1})

    for columns, said in (
        (["id", "id AS long", "id AS ID"], "differ from this one in upper and lower case only"),
        (["id"], "columns are missing.*'long'"),
        (["id", "if(id > 1, id, null) AS long"], "a row has no value .*column='long'"),
    ):
        with pytest.raises(InvalidRecordError, match=said):
            query.run_into(query.sink(), query.source().selectExpr(*columns))


@pytest.mark.sampled("tables")
def test_a_type_that_spark_does_not_write_is_refused_unless_rows_have_no_such_column(query: IcebergQuery) -> None:
    lists = ListType(4, TimeType())
    fields = NestedField(1, "id", UUIDType()), NestedField(2, "value", StringType()), NestedField(3, "times", lists)
    create_iceberg(query.catalog, TABLE, Schema(*fields))
    query.add({"id": 1, "value": "a"})

    with pytest.raises(UsageError, match=r"Spark's parquet writer has no such type.*column='id', type='uuid'"):
        query.run_into(query.sink())

    query.run_into(query.sink(), query.source().select("value"))
    assert iceberg_rows(query.metadata) == [{"value": "a"}]


def test_a_partition_that_was_dropped_from_a_table_of_version_1_has_no_value(query: IcebergQuery) -> None:
    """The format keeps it in the spec, with a transform that makes nothing of any value."""
    by = spec((1, IDENTITY), (4, IDENTITY))
    schema = Schema(*(field for field in PARTITIONED.fields if field.field_id in {1, 2, 4}))
    create_iceberg(query.catalog, TABLE, schema, partition_spec=by, properties={"format-version": "1"})
    with closing(load_catalog("lake", **query.catalog)) as catalog:
        table = catalog.load_table(TABLE)
        table.update_spec().remove_field("p0").commit()
        assert repr(table.spec().fields[0].transform) == "VoidTransform()"
        query.write_rows(query.sink(), query.spark.sql("SELECT true flag, 1 id, 'a' text"))

        (file,) = iceberg_files(query.metadata)
        assert file["partition"] == {"p0": None, "p1": "a"}
        rows = catalog.load_table(TABLE).scan(row_filter="text = 'a'").to_arrow().to_pylist()
        assert rows == [{"flag": True, "id": 1, "text": "a"}]

        catalog.load_table(TABLE).update_schema().delete_column("flag").commit()
        with pytest.raises(UsageError, match=r"a partition whose column was dropped.*partition='p0'"):
            query.write_rows(query.sink(), query.spark.sql("SELECT 2 id, 'b' text"))
