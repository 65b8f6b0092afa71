"""Batches whose tasks prepare a transaction each: what only these can meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt
from oncelog.batches.rules import BatchRequest
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, InvalidRecordError, NotPreparedError, RunSupersededError, UsageError
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, always_at, at, stop
from oncelog_postgres import staging
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.errors import DatabaseUnavailableError, TableChangedError
from oncelog_postgres.failures import OvertakenError
from oncelog_postgres.jobs import SparkJob
from tests.support.servers.postgres import PostgresServer, running_server
from worlds import ArrowJob, PostgresWorld, left_staging

TASK = {"transaction": "task"}


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, postgres, "value text PRIMARY KEY", **TASK)
    yield found
    assert found.left() == []
    assert prepared(postgres) == 0
    found.close()


def prepared(server: PostgresServer) -> object:
    return server.ask("SELECT count(*) FROM pg_prepared_xacts")[0][0]


def roll_back_one(world: PostgresWorld) -> None:
    ((named,),) = world.server.ask("SELECT gid FROM pg_prepared_xacts ORDER BY 1 LIMIT 1")
    world.server.ask(f"ROLLBACK PREPARED '{named}'")


def test_rows_are_written_once_and_not_staged(world: PostgresWorld) -> None:
    with at(CrashPoint.ROUND_DECIDE, lambda: seen.append((prepared(world.server), world.visible()))):
        seen: list[object] = []
        world.run(0, FIRST)

    assert seen == [(2, [])]
    assert world.holds(FIRST)


def test_a_driver_that_dies_between_two_tasks_transactions_has_its_successor_commit_the_others(
    world: PostgresWorld,
) -> None:
    with at(PostgresCrashPoint.PIECE, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    assert 0 < len(world.visible()) < len(FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    world.run(1, SECOND, "run-2")
    assert world.holds(FIRST, SECOND)


@pytest.mark.parametrize("point", [PostgresCrashPoint.WRITTEN, PostgresCrashPoint.PREPARED, PostgresCrashPoint.PIECE])
def test_of_a_query_that_does_not_come_back_nothing_stays_prepared(world: PostgresWorld, point: str) -> None:
    """By what `oncelog batch abort` and `oncelog batch complete` do."""
    with pytest.MonkeyPatch.context() as patched, at(point, stop), pytest.raises(StoppedOnPurposeError):
        patched.setattr(CommittableAttempt, "abort", lambda _: None)  # as one that is killed
        world.run(0, FIRST)
    target, is_decided = world.target(), point == PostgresCrashPoint.PIECE
    if not is_decided:
        assert target.ledgers.abort(world.store, world.prefix, 1)

    asked = BatchRequest(world.prefix, "query", "sink", "run-1", -1, "")
    carried_out, _ = target.attempt(Batch(asked, world.job([]))).complete()

    assert len(carried_out) == 1
    assert world.holds(*([FIRST] if is_decided else []))


def test_of_two_drivers_that_commit_the_same_transactions_both_end_well(world: PostgresWorld) -> None:
    with at(PostgresCrashPoint.PIECE, lambda: world.run(0, FIRST, "run-2")), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)


def test_whoever_comes_later_goes_by_the_decision_and_not_by_its_own_options(world: PostgresWorld) -> None:
    for batch_id, (mine, later) in enumerate([(TASK, {}), ({}, TASK)]):
        world.options = mine
        with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
            world.run(batch_id, (FIRST, SECOND)[batch_id], f"early-{batch_id}")
        world.options = later
        assert world.run(batch_id, (FIRST, SECOND)[batch_id], f"late-{batch_id}").is_replay

    assert world.holds(FIRST, SECOND)


def test_a_transaction_that_somebody_rolled_back_before_the_decision_decides_nothing(world: PostgresWorld) -> None:
    with (
        always_at(PostgresCrashPoint.WRITTEN, lambda: roll_back_one(world)),
        pytest.raises(NotPreparedError, match="a task's prepared transaction is gone; nothing was decided"),
    ):
        world.run(0, FIRST)
    assert world.visible() == []

    world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


def test_one_that_somebody_rolled_back_behind_the_decision_is_never_taken_for_committed(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    world = PostgresWorld(tmp_path, postgres, **TASK)
    with (
        at(PostgresCrashPoint.COMMIT, lambda: roll_back_one(world)),
        pytest.raises(CorruptDataError, match="a prepared transaction of a decided batch is gone"),
    ):
        world.run(0, FIRST)
    with pytest.raises(CorruptDataError):
        world.run(0, FIRST, "run-2")
    for (named,) in postgres.ask("SELECT gid FROM pg_prepared_xacts"):
        postgres.ask(f"ROLLBACK PREPARED '{named}'")
    world.close()


def test_what_a_try_that_lost_has_prepared_is_rolled_back(world: PostgresWorld) -> None:
    """Spark knows only the other try, and both have written."""

    class TriedTwice(ArrowJob):
        def run(self, planned, task):  # type: ignore[no-untyped-def]
            staging.copy(task, [pa.record_batch({"value": pa.array(["lost"])})])
            return super().run(planned, task)

    world.run_job(0, TriedTwice(pa.table({"value": list(FIRST)})))

    assert world.holds(FIRST)


def test_a_key_of_another_task_of_the_batch_is_not_waited_for_in_vain(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "WAITS_AT_MOST_MS", 200)

    with pytest.raises(OvertakenError, match="lock timeout"):
        world.run(0, ["a", "a"])

    assert world.visible() == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("value text CHECK (value <> 'b')", "violates check constraint"),
        ("value varchar(1) UNIQUE DEFERRABLE INITIALLY DEFERRED", "duplicate key value"),
        ("value text NOT NULL, more int NOT NULL DEFAULT 1 / 0", "division by zero"),
    ],
)
def test_rows_that_the_table_refuses_decide_nothing(world: PostgresWorld, columns: str, said: str) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} ({columns})")
    with pytest.raises(InvalidRecordError, match=said):
        world.run(0, ["b", "c", "b"])

    assert world.visible() == []


def test_a_table_that_goes_away_during_the_job_is_named(world: PostgresWorld) -> None:
    drop = f"DROP TABLE {world.table}"
    with (
        at(PostgresCrashPoint.STAGED, lambda: world.server.ask(drop)),
        pytest.raises(TableChangedError, match="the table was removed"),
    ):
        world.run(0, FIRST)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["uuid", "jsonb", "inet", "varchar(3)[]"])
def test_a_column_that_the_server_would_convert_is_refused_before_a_job_runs(world: PostgresWorld, kind: str) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value {kind})")
    values = pa.array([["a"]]) if kind.endswith("[]") else pa.array(["a"])

    with pytest.raises(InvalidRecordError, match=r"PostgreSQL would have to convert this column.*column='value'"):
        world.run_job(0, ArrowJob(pa.table({"value": values})))


def test_narrower_values_are_widened_by_spark(world: PostgresWorld, spark: SparkSession) -> None:
    kinds = {
        "a": ("bigint", "byte"),
        "b": ("numeric(12, 2)", "int"),
        "c": ("double precision", "float"),
        "d": ("integer", "short"),
        "e": ("char(3)", "string"),
        "f": ("json", "struct<x: int>"),
        "g": ("bigint[]", "array<long>"),
    }
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} ({columns})")
    schema = ", ".join(f"{name} {kind}" for name, (_, kind) in kinds.items())

    world.run_job(0, SparkJob(spark.createDataFrame([(1, 2, 0.5, 3, "x", (7,), [1, 2])], schema)))

    assert [list(map(str, row)) for row in world.server.ask(f"SELECT * FROM {world.table}")] == [
        ["1", "2.00", "0.5", "3", "x  ", "{'x': 7}", "[1, 2]"]
    ]


def test_a_server_that_keeps_none_is_refused_before_a_job_and_one_that_is_full_in_a_task(tmp_path: Path) -> None:
    for kept, kind, said in (
        (0, UsageError, "set max_prepared_transactions"),
        (1, DatabaseUnavailableError, "no room for another prepared transaction"),
    ):
        with running_server(f"max_prepared_transactions={kept}") as server:
            folder = tmp_path / str(kept)
            folder.mkdir()
            world = PostgresWorld(folder, server, **TASK)
            with pytest.raises(kind, match=said):
                world.run(0, FIRST)
            assert (world.visible(), left_staging(server, world.url), prepared(server)) == ([], [], 0)
            world.close()


def test_a_server_that_crashes_keeps_what_is_prepared(tmp_path: Path) -> None:
    with running_server("synchronous_commit=off", "wal_writer_delay=10s") as server:
        world = PostgresWorld(tmp_path, server, **TASK)
        with at(PostgresCrashPoint.COMMIT, server.kill), pytest.raises(DatabaseUnavailableError, match="is decided"):
            world.run(0, FIRST)

        server.start()
        assert world.run(0, FIRST, "run-2").is_replay
        server.kill()
        server.start()
        assert world.holds(FIRST)
        assert (world.left(), prepared(server)) == ([], 0)
        world.close()
