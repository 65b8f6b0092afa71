"""Queries into Delta tables, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import oncelog_tables
from lake_queries import ROWS_OF_ALL_TYPES, Query
from lakes import create_delta, delta_files, delta_rows
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog_tables.batch_sink import DeltaSink
from tests.support.spark.faults import failing_once
from tests.support.spark.queries import forget_last_commit

ALL_TYPES = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("tiny", pa.int8()),
        pa.field("long", pa.int64()),
        pa.field("double", pa.float64()),
        pa.field("price", pa.decimal128(20, 4)),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("inner", pa.struct([pa.field("x", pa.int32()), pa.field("names", pa.list_(pa.string()))])),
        pa.field("by_name", pa.map_(pa.string(), pa.int32())),
    ]
)


def sink_of(query: Query) -> DeltaSink:
    return oncelog_tables.delta(path=str(query.folder / "table"), znodes=str(query.folder / "ledger"))


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    close_ledgers()


def test_rows_are_appended_once_though_a_task_and_the_batch_are_run_again(query: Query, tmp_path: Path) -> None:
    create_delta(query.folder / "table", pa.schema({"id": pa.int64(), "value": pa.string(), "more": pa.string()}))
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.add({"id": 3, "value": "c"})
    source = query.source()
    query.run_into(sink_of(query), source.mapInArrow(failing_once(tmp_path), source.schema))
    assert sorted((report.rows, report.is_replay) for report in query.reports) == [(1, False), (2, False)]
    assert list(tmp_path.glob("failed-*"))

    forget_last_commit(query.checkpoint)
    query.run_into(sink_of(query))

    assert [report.is_replay for report in query.reports] == [True]
    found = sorted((row["id"], row["value"]) for row in delta_rows(query.folder / "table"))
    assert found == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.sampled("tables")
def test_rows_go_to_the_partitions_of_the_table(query: Query) -> None:
    """Values as Spark names folders by them: escaped, and one name for all that is no value."""
    schema = pa.schema({"id": pa.int32(), "value": pa.string(), "da=y": pa.date32()})
    create_delta(query.folder / "table", schema, partition_by=["da=y", "value"])
    values = ["a b", "c/d:e%20f", "é", None, ""]
    query.add(*({"id": at, "value": value} for at, value in enumerate(values)))

    query.run_into(sink_of(query), query.source().selectExpr("id", "value", "date_add(date'2026-01-01', id) AS `DA=Y`"))

    found = sorted((row["id"], row["da=y"], row["value"]) for row in delta_rows(query.folder / "table"))
    assert found == [(at, f"2026-01-0{at + 1}", value or None) for at, value in enumerate(values)]
    assert query.reports[0].participants == len(values)


@pytest.mark.sampled("tables")
def test_files_have_the_statistics_by_which_readers_skip_them(query: Query) -> None:
    create_delta(query.folder / "table", ALL_TYPES)

    query.write_rows(sink_of(query), query.spark.sql(ROWS_OF_ALL_TYPES))

    (action,) = delta_files(query.folder / "table").values()
    found = json.loads(action["stats"], parse_float=Decimal)
    assert found["numRecords"] == 2
    assert found["minValues"] == {
        "tiny": 1,
        "long": 2,
        "price": Decimal("0.1234"),
        "text": "a",
        "day": "0001-01-01",
        "at": "2026-01-02T03:04:05.678Z",
        "inner": {"x": 1},
    }
    assert found["maxValues"] == {
        "tiny": 1,
        "long": 5,
        "price": Decimal("12345678901234.5678"),
        "text": "é" * 32 + "\U0010ffff",
        "day": "2026-01-02",
        "at": "2026-01-03T00:00:00.000Z",
        "inner": {"x": 1},
    }
    assert found["nullCount"]["flag"] == found["nullCount"]["inner"]["x"] == 1
    assert "by_name" not in found["nullCount"], "a count of values within a map says nothing of rows"
    assert {row["at"] for row in delta_rows(query.folder / "table")} == {
        dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 3, tzinfo=dt.UTC),
    }
