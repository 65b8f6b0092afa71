"""Queries into Delta tables, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oncelog_tables
from lakes import create_delta, delta_files, delta_rows
from oncelog.spark.kit.target import BatchReport
from oncelog_tables import ledgers
from tests.support.spark.faults import failing_once
from tests.support.spark.queries import forget_last_commit, run_available

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

ROWS = """
SELECT true flag, 1Y tiny, 2 long, cast('NaN' AS float) double, 0.1234bd * 1 price, repeat('é', 40) text,
 x'00ff' bytes, date'2026-01-02' day, timestamp'2026-01-02 03:04:05.678901Z' at,
 named_struct('x', 1, 'names', array('a', null)) inner, map('k', 1) by_name
UNION ALL SELECT null, null, 5, 1.5, 12345678901234.5678bd, 'a', null, date'0001-01-01',
 timestamp'2026-01-03 00:00:00Z', null, null
"""


class Query:
    """A query from files of JSON rows into a table, over many runs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.table = folder / "table"
        self.checkpoint = folder / "checkpoint"
        self.reports: list[BatchReport] = []
        self._files = 0
        self._in = folder / "in"
        self._options = {"path": str(self.table), "znodes": str(folder / "ledger")}
        self._in.mkdir()

    def add(self, *rows: dict[str, Any]) -> None:
        """One more file, which is one more batch."""
        hidden = self._in / f".{self._files}"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        hidden.rename(self._in / f"{self._files:04d}.json")
        self._files += 1

    def source(self, schema: str = "id int, value string") -> DataFrame:
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self._in))

    def run(self, df: DataFrame | None = None) -> None:
        """Write what there is; raises what the sink raised: to Spark that is text within an error of its own."""
        sink = oncelog_tables.delta(**self._options)
        self.reports = []
        problems: list[Exception] = []

        def write(batch: DataFrame, batch_id: int) -> None:
            try:
                sink(batch, batch_id)
            except Exception as problem:
                problems.append(problem)
                raise
            assert sink.last_report is not None
            self.reports.append(sink.last_report)

        try:
            run_available((df or self.source()).writeStream.foreachBatch(write), self.checkpoint)
        except StreamingQueryException:
            raise problems[0] from None


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    ledgers.close_stores()


def test_rows_are_appended_once_though_a_task_and_the_batch_are_run_again(query: Query, tmp_path: Path) -> None:
    create_delta(query.table, pa.schema({"id": pa.int64(), "value": pa.string(), "more": pa.string()}))
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.add({"id": 3, "value": "c"})
    source = query.source()
    query.run(source.mapInArrow(failing_once(tmp_path), source.schema))
    assert sorted((report.rows, report.is_replay) for report in query.reports) == [(1, False), (2, False)]
    assert list(tmp_path.glob("failed-*"))

    forget_last_commit(query.checkpoint)
    query.run()

    assert [report.is_replay for report in query.reports] == [True]
    found = sorted((row["id"], row["value"]) for row in delta_rows(query.table))
    assert found == [(1, "a"), (2, "b"), (3, "c")]


def test_rows_go_to_the_partitions_of_the_table(query: Query) -> None:
    """Values as Spark names folders by them: escaped, and one name for all that is no value."""
    schema = pa.schema({"id": pa.int32(), "value": pa.string(), "da=y": pa.date32()})
    create_delta(query.table, schema, partition_by=["da=y", "value"])
    values = ["a b", "c/d:e%20f", "é", None, ""]
    query.add(*({"id": at, "value": value} for at, value in enumerate(values)))

    query.run(query.source().selectExpr("id", "value", "date_add(date'2026-01-01', id) AS `DA=Y`"))

    found = sorted((row["id"], row["da=y"], row["value"]) for row in delta_rows(query.table))
    assert found == [(at, f"2026-01-0{at + 1}", value or None) for at, value in enumerate(values)]
    assert query.reports[0].participants == len(values)


def test_files_have_the_statistics_by_which_readers_skip_them(query: Query) -> None:
    create_delta(query.table, ALL_TYPES)
    query.add({"id": 1})
    rows = query.spark.sql(ROWS)

    query.run(query.source().join(rows).select(*rows.columns).coalesce(1))

    (action,) = delta_files(query.table).values()
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
    assert {row["at"] for row in delta_rows(query.table)} == {
        dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 3, tzinfo=dt.UTC),
    }
