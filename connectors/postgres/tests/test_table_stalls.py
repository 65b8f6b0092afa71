"""A server that stands still, as under SIGSTOP, keeps its connections: drivers and tasks give up all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oncelog.testing.target_contract import FIRST, SECOND, at
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.database import Database, text
from oncelog_postgres.errors import DatabaseUnavailableError
from oncelog_postgres.jobs import SparkJob
from oncelog_postgres.options import parse
from oncelog_postgres.staging import copy
from oncelog_postgres.stalls import stands_still
from tests.support.servers.postgres import PostgresServer, running_server
from worlds import ArrowJob, PostgresWorld

SOON = "timeout_ms=300"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as found:
        yield found


@pytest.fixture(params=[{}, {"transaction": "task"}], ids=["batch", "task"])
def world(server: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, server, "value text PRIMARY KEY", **request.param)
    found.url = server.url(SOON)
    yield found
    server.resume()
    found.close()


@pytest.mark.sampled("servers that stall")
@pytest.mark.parametrize(
    ("point", "said"),
    [
        (PostgresCrashPoint.STAGED, "the database server is not responding: the request timed out"),
        (PostgresCrashPoint.WRITTEN, "the database server is not responding"),
        (PostgresCrashPoint.COMMIT, "the batch is decided"),
        (PostgresCrashPoint.COMMITTED, "the database server is not responding.*the batch is decided"),
    ],
)
def test_a_driver_gives_up_and_its_successor_leaves_one_copy(world: PostgresWorld, point: str, said: str) -> None:
    with at(point, world.server.pause), pytest.raises(DatabaseUnavailableError, match=said):
        world.run(0, FIRST)
    world.server.resume()

    is_decided = point in (PostgresCrashPoint.COMMIT, PostgresCrashPoint.COMMITTED)
    assert world.run(0, FIRST, "run-2").is_replay == is_decided
    world.run(1, SECOND, "run-2")
    assert world.holds(FIRST, SECOND)
    assert world.left() == []
    assert world.server.ask("SELECT gid FROM pg_prepared_xacts") == []


@pytest.mark.sampled("servers that stall")
def test_a_task_gives_up_in_the_middle_of_its_rows(world: PostgresWorld) -> None:
    class PausedJob(ArrowJob):
        def run(self, planned: Any, task: Any) -> Any:
            rows = pa.record_batch({"value": pa.array(["x" * 100_000])})

            def batches() -> Iterator[pa.RecordBatch]:
                yield rows
                world.server.pause()
                for _ in range(1_000):  # more than sockets keep for the server
                    yield rows

            return [copy(task, batches())]

    with pytest.raises(DatabaseUnavailableError, match="the database server is not responding"):
        world.run_job(0, PausedJob(pa.table({"value": ["a"]})))
    world.server.resume()

    world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


@pytest.mark.sampled("servers that stall")
def test_a_task_of_spark_gives_up(world: PostgresWorld, spark: SparkSession) -> None:
    """Its worker ends, with the thread in which the driver of the database waits."""
    server_pid = world.server.pid

    def pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            children = Path("/proc", str(server_pid), "task", str(server_pid), "children").read_text()
            for process in (*map(int, children.split()), server_pid):
                os.kill(process, signal.SIGSTOP)
            yield batch

    rows = spark.range(1).selectExpr("'a' AS value").mapInArrow(pause, "value string")
    with pytest.raises(DatabaseUnavailableError, match="the database server is not responding"):
        world.run_job(0, SparkJob(rows))
    world.server.resume()

    world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


def test_a_statement_that_takes_its_time_is_waited_for(server: PostgresServer) -> None:
    database = Database(parse({"url": server.url(SOON), "table": "t"}).address)

    assert database.rows(text("SELECT 1 FROM pg_sleep(2)")) == [(1,)]
    database.close()


def test_a_task_that_takes_its_time_is_waited_for(world: PostgresWorld) -> None:
    class SlowJob(ArrowJob):
        def run(self, planned: Any, task: Any) -> Any:
            def batches() -> Iterator[pa.RecordBatch]:
                yield pa.record_batch({"value": pa.array(["a"])})
                world.server.ask("SELECT pg_sleep(2)")
                yield pa.record_batch({"value": pa.array(["b"])})

            return [copy(task, batches())]

    world.run_job(0, SlowJob(pa.table({"value": ["a"]})))

    assert world.holds(["a", "b"])


def test_a_server_that_is_away_or_refuses_does_not_stand_still(server: PostgresServer) -> None:
    for url in (server.url(SOON, database="nowhere"), server.url(SOON, port=1), server.url(SOON)):
        assert not stands_still(parse({"url": url, "table": "t"}).address)
