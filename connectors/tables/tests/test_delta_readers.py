"""What Delta's own Spark finds in a table that the sink writes into, and what both find when they take turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import oncelog_tables
from foreign_spark import DELTA, DELTA_JARS, ForeignSpark, running
from lake_queries import ROWS_OF_ALL_TYPES, Query
from lakes import delta_files
from oncelog.errors import UsageError
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog_tables.batch_sink import DeltaSink

pytestmark = pytest.mark.sampled("tables")

COLUMNS = (
    "flag boolean, tiny tinyint, long bigint, double double, price decimal(20, 4), text string, bytes binary, "
    "day date, at timestamp, local timestamp_ntz, inner struct<x: int, names: array<string>>, by_name map<string, int>"
)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    close_ledgers()


def sink_of(query: Query, **options: str) -> DeltaSink:
    return oncelog_tables.delta(path=str(query.folder / "table"), znodes=str(query.folder / "ledger"), **options)


@pytest.fixture(scope="module")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignSpark]:
    with running(tmp_path_factory.mktemp("delta-spark"), DELTA_JARS, DELTA) as found:
        yield found


def test_values_of_all_types_are_read_as_they_were_written_and_files_without_them_are_skipped(
    query: Query, delta_spark: ForeignSpark
) -> None:
    table = f"delta.`{query.folder / 'table'}`"
    delta_spark.ask(f"CREATE TABLE {table} ({COLUMNS}) USING delta")
    written = query.spark.sql(f"SELECT *, timestamp_ntz'1900-01-01 00:00:00.000001' local FROM ({ROWS_OF_ALL_TYPES})")
    columns = [column.partition(" ")[0] for column in COLUMNS.split(", ") if not column.startswith("names:")]
    written = written.select(*(column for column in columns if column in written.columns))
    query.write_rows(sink_of(query), written)

    found = delta_spark.ask(f"SELECT * FROM {table} ORDER BY long")

    expected = written.orderBy("long").selectExpr("to_json(struct(*)) row").collect()
    assert found == [json.loads(row["row"]) for row in expected]

    (file,) = delta_files(query.folder / "table")
    (query.folder / "table" / file).unlink()  # whoever does not skip it fails
    outside = [
        "price < 0.1233",
        "price > 12345678901234.5678",
        "text > 'ê'",
        "day < '0001-01-01'",
        "at > '2026-01-03 00:00:00.002'",
        "local < '1900-01-01'",
        "inner.x > 1",
        "long IS NULL",
    ]
    for where in outside:
        assert delta_spark.ask(f"SELECT * FROM {table} WHERE {where}") == [], where


def test_deltas_own_writer_and_the_sink_take_turns(query: Query, delta_spark: ForeignSpark) -> None:
    """Its commits, compaction, deletion vectors and checkpoints are understood, and the sink's by it."""
    table = f"delta.`{query.folder / 'table'}`"
    delta_spark.ask(
        f"CREATE TABLE {table} (id int, value string) USING delta PARTITIONED BY (value) "
        "TBLPROPERTIES (delta.enableDeletionVectors = true, delta.checkpointInterval = 2)"
    )
    delta_spark.ask(f"INSERT INTO {table} VALUES (1, 'theirs'), (2, 'theirs')")
    query.add({"id": 3, "value": "ours: 100%"}, {"id": 4, "value": ""})
    query.run_into(sink_of(query))
    delta_spark.ask(f"DELETE FROM {table} WHERE id = 1")
    delta_spark.ask(f"OPTIMIZE {table}")
    query.add({"id": 5, "value": "ours: 100%"})
    query.run_into(sink_of(query))

    assert delta_spark.ask(f"SELECT * FROM {table} ORDER BY id") == [
        {"id": 2, "value": "theirs"},
        {"id": 3, "value": "ours: 100%"},
        {"id": 4},
        {"id": 5, "value": "ours: 100%"},
    ]
    ours = delta_spark.ask(f"SELECT id FROM {table} WHERE value = 'ours: 100%' ORDER BY id")
    assert ours == [{"id": 3}, {"id": 5}]


def test_deltas_own_writer_and_upserts_take_turns(query: Query, delta_spark: ForeignSpark) -> None:
    """Its deletion vectors and compaction are understood by a merge, and the merge and its change feed by it."""
    table = f"delta.`{query.folder / 'table'}`"
    delta_spark.ask(
        f"CREATE TABLE {table} (id int, value string, more string) USING delta PARTITIONED BY (value) TBLPROPERTIES "
        "(delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true, delta.checkpointInterval = 2)"
    )
    delta_spark.ask(f"INSERT INTO {table} SELECT cast(id AS int), 'theirs', 'more' FROM range(4)")
    delta_spark.ask(f"DELETE FROM {table} WHERE id = 1")

    def upsert(*rows: tuple[int, str]) -> list[tuple[int, str]]:
        query.add(*({"id": number, "value": value} for number, value in rows))
        query.run_into(sink_of(query, mode="upsert", keyColumns="ID"))
        found = delta_spark.ask(f"SELECT id, value FROM {table} ORDER BY id")
        return [(row["id"], row["value"]) for row in found]

    assert upsert((0, "ours: 100%"), (1, "ours"), (9, "ours")) == [
        (0, "ours: 100%"),
        (1, "ours"),
        (2, "theirs"),
        (3, "theirs"),
        (9, "ours"),
    ]
    assert delta_spark.ask(f"SELECT id FROM {table} WHERE more IS NULL ORDER BY id") == [
        {"id": 0},
        {"id": 1},
        {"id": 9},
    ]
    changes = f"table_changes_by_path('{query.folder / 'table'}', 3)"
    kinds = delta_spark.ask(f"SELECT id, _change_type kind FROM {changes} ORDER BY id, kind DESC")
    assert [(row["id"], row["kind"]) for row in kinds] == [
        (0, "update_preimage"),
        (0, "update_postimage"),
        (1, "insert"),
        (9, "insert"),
    ]

    delta_spark.ask(f"UPDATE {table} SET value = 'updated' WHERE id IN (2, 9)")
    delta_spark.ask(f"OPTIMIZE {table}")
    assert upsert((2, "ours"), (3, "ours: 100%")) == [
        (0, "ours: 100%"),
        (1, "ours"),
        (2, "ours"),
        (3, "ours: 100%"),
        (9, "updated"),
    ]


def test_rows_of_deltas_own_writer_in_a_rewritten_file_stay_as_they_are(
    query: Query, delta_spark: ForeignSpark
) -> None:
    """It writes timestamps in INT96, which delta-rs cannot read beyond 2262: refused, until the files are rewritten."""
    table = f"delta.`{query.folder / 'table'}`"
    delta_spark.ask(
        f"CREATE TABLE {table} (id int, value string, until timestamp) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    rows = "(1, 'theirs', TIMESTAMP'2026-01-01'), (2, 'theirs', TIMESTAMP'9999-12-31 23:59:59.999999')"
    delta_spark.ask(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    query.add({"id": 1, "value": "ours"})
    with pytest.raises(UsageError, match=r"column='until', .*INT96.*INSERT OVERWRITE"):
        query.run_into(sink_of(query, mode="upsert", keyColumns="id"))

    for statement in (
        "SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS",
        f"INSERT OVERWRITE {table} SELECT /*+ COALESCE(1) */ * FROM {table}",
        "SET spark.sql.parquet.outputTimestampType=INT96",
    ):
        delta_spark.ask(statement)
    query.run_into(sink_of(query, mode="upsert", keyColumns="id"))

    found = delta_spark.ask(f"SELECT id, value, cast(until AS string) until FROM {table} ORDER BY id")
    assert found == [{"id": 1, "value": "ours"}, {"id": 2, "value": "theirs", "until": "9999-12-31 23:59:59.999999"}]
    changes = f"table_changes_by_path('{query.folder / 'table'}', 3)"
    kinds = delta_spark.ask(f"SELECT id, value, _change_type kind FROM {changes} ORDER BY kind DESC")
    assert [(row["id"], row["value"], row["kind"]) for row in kinds] == [
        (1, "theirs", "update_preimage"),
        (1, "ours", "update_postimage"),
    ]
