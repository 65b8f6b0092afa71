"""Queries into the sink, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog_postgres
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.faults import armed
from tests.support.spark.json_queries import JsonQuery
from tests.support.spark.queries import forget_last_commit
from worlds import left_staging, new_table


class Query(JsonQuery):
    """A query into a table of PostgreSQL."""

    def __init__(self, spark: SparkSession, server: PostgresServer, folder: Path) -> None:
        super().__init__(spark, folder)
        self.server = server
        self.url = server.url()

    def run(self, table: str, df: DataFrame | None = None, **more: Any) -> None:
        """Write what there is; see `run_into`."""
        self.run_into(oncelog_postgres.sink(url=self.url, table=table, **more), df)


@pytest.fixture
def query(spark: SparkSession, postgres: PostgresServer, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, postgres, tmp_path)
    close_ledgers()


def test_rows_are_appended_once_though_spark_runs_the_batch_again(query: Query) -> None:
    table = new_table(query.server, "id int PRIMARY KEY, value text NOT NULL, at timestamptz DEFAULT now()")
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.add({"id": 3, "value": "c"})
    query.run(table)
    assert sorted((report.rows, report.is_replay) for report in query.reports) == [(1, False), (2, False)]

    forget_last_commit(query.checkpoint)
    query.run(table)

    assert [report.is_replay for report in query.reports] == [True]
    found = query.server.ask(f"SELECT id, value, at IS NULL FROM {table} ORDER BY id")
    assert found == [(1, "a", False), (2, "b", False), (3, "c", False)]
    assert left_staging(query.server, query.url) == []


def test_rows_with_the_same_key_are_replaced(query: Query) -> None:
    table = new_table(query.server, "id int PRIMARY KEY, value text, kept text DEFAULT 'first'")
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.run(table, mode="upsert", keyColumns="id", znodes=str(query.folder / "ledger"))
    query.server.ask(f"UPDATE {table} SET kept = 'mine'")
    query.add({"id": 2, "value": "c"}, {"id": 3, "value": "d"})

    query.run(table, mode="upsert", keyColumns="id", znodes=str(query.folder / "ledger"))

    found = query.server.ask(f"SELECT * FROM {table} ORDER BY id")
    assert found == [(1, "a", "mine"), (2, "c", "mine"), (3, "d", "first")]


def test_a_task_that_is_tried_again_leaves_one_copy(query: Query) -> None:
    table = new_table(query.server, "id int, value text")
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})

    mark = query.folder / "killed"
    with armed(query.spark, PostgresCrashPoint.COPIED, mark):  # it has copied its rows, and nobody hears of them
        query.run(table)

    assert mark.exists()
    assert query.server.ask(f"SELECT * FROM {table} ORDER BY id") == [(1, "a"), (2, "b")]
    assert left_staging(query.server, query.url) == []
