"""What is left by drivers and tasks that stop, wake up late, or meet another table or no server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import adbc_driver_postgresql
import pyarrow as pa
import pytest

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt
from oncelog.crash_points import CrashPoint
from oncelog.errors import (
    BatchRefusedError,
    CorruptDataError,
    InvalidRecordError,
    OncelogError,
    RoundAbortedError,
    RunSupersededError,
    UsageError,
)
from oncelog.spark import task_errors
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog_postgres import staging
from oncelog_postgres.committer import PostgresCommitter
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.database import conninfo, text
from oncelog_postgres.errors import DatabaseAccessError, DatabaseUnavailableError, TableChangedError
from oncelog_postgres.failures import KeyTwiceError, OvertakenError
from oncelog_postgres.insertion import STAGING
from oncelog_postgres.jobs import Job
from oncelog_postgres.options import parse
from oncelog_postgres.staging import CopyTask, copy
from tests.support.servers.postgres import PostgresServer, pooler, running_server
from worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, PostgresWorld, schema_of


@pytest.fixture
def options() -> dict[str, Any]:
    """Of the sinks."""
    return {}


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer, options: dict[str, Any]) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, postgres, "value text PRIMARY KEY", **options)
    yield found
    assert found.left() == []
    assert postgres.ask("SELECT gid FROM pg_prepared_xacts") == []
    found.close()


by_both = pytest.mark.parametrize("options", [{}, {"transaction": "task"}], ids=["batch", "task"])
"""A transaction of the batch, and one of each task."""


@pytest.fixture
def stands_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drivers that stop clean up nothing: their connections, and what these hold, stay as they are."""
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=5s")  # an error for whoever would wait for them
    still: list[CommittableAttempt[Any]] = []

    with monkeypatch.context() as patched:
        patched.setattr(CommittableAttempt, "abort", lambda _: None)
        patched.setattr(CommittableAttempt, "close", lambda attempt: still.append(attempt))  # noqa: PLW0108 - bound as a method
        yield
    for attempt in still:
        attempt.committer.close()


def die(world: PostgresWorld, point: str, batch_id: int = 0) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, FIRST)


@by_both
@pytest.mark.usefixtures("stands_still")
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_a_driver_that_stands_still_holds_up_nobody_and_leaves_one_copy(world: PostgresWorld, point: str) -> None:
    """The rows of its open transaction have the keys that its successor inserts, or waits for."""
    die(world, point)
    if point in BEFORE_THE_DECISION:
        assert world.visible() == []

    report = world.run(0, FIRST, "run-2")
    world.run(1, SECOND, "run-2")

    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert world.holds(FIRST, SECOND)


@by_both
@pytest.mark.parametrize("point", [PostgresCrashPoint.PREPARED, PostgresCrashPoint.WRITTEN, PostgresCrashPoint.STAGED])
def test_of_two_drivers_the_older_one_ends_and_one_copy_is_left(world: PostgresWorld, point: str) -> None:
    with at(point, lambda: world.run(0, FIRST, "run-2")), pytest.raises((RunSupersededError, RoundAbortedError)):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST)


@by_both
def test_of_two_drivers_behind_the_decision_either_may_commit(world: PostgresWorld) -> None:
    for point, batch_id in ((PostgresCrashPoint.COMMIT, 0), (PostgresCrashPoint.COMMITTED, 1)):
        values = (FIRST, SECOND)[batch_id]
        go_on = lambda batch_id=batch_id, values=values: world.run(batch_id, values, f"late-{batch_id}")  # noqa: E731
        with at(point, go_on), suppress(RunSupersededError):
            world.run(batch_id, values, f"early-{batch_id}")

    assert world.holds(FIRST, SECOND)


@by_both
def test_a_task_that_wakes_up_late_is_told_that_its_place_is_gone(world: PostgresWorld) -> None:
    """It may be copying when its batch is aborted: then its session is ended, so that nobody waits for it."""
    die(world, PostgresCrashPoint.WRITTEN)
    tasks: list[CopyTask] = []
    rows = pa.record_batch({"value": pa.array(["late"])})
    with at(PostgresCrashPoint.STAGED, lambda: tasks.append(newest_task(world))):
        world.run(0, FIRST, "run-2")

    with pytest.raises(RoundAbortedError, match="the staging table of the batch is gone"):
        copy(tasks[0], [rows])
    assert world.holds(FIRST)


@by_both
def test_a_task_that_is_copying_holds_up_no_successor(world: PostgresWorld) -> None:
    begun, ended, problems = threading.Event(), threading.Event(), list[Exception]()
    rows = pa.record_batch({"value": pa.array(["late"])})

    def slow_rows() -> Iterator[pa.RecordBatch]:
        yield rows
        begun.set()
        ended.wait(60)
        yield rows

    def copy_slowly(task: CopyTask) -> None:
        try:
            copy(task, slow_rows())
        except Exception as problem:  # noqa: BLE001 - told to the test
            problems.append(problem)

    def begin() -> None:
        thread.append(threading.Thread(target=copy_slowly, args=[newest_task(world)]))
        thread[0].start()
        begun.wait(60)
        stop()

    thread: list[threading.Thread] = []
    with at(PostgresCrashPoint.STAGED, begin), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    assert world.left() == []
    world.run(0, FIRST, "run-2")
    ended.set()
    thread[0].join()

    assert [type(problem) for problem in problems] == [DatabaseUnavailableError]
    assert world.holds(FIRST)


def roll_back_all(world: PostgresWorld) -> None:
    """What an administrator may do who does not know whose prepared transactions these are."""
    for (named,) in world.server.ask("SELECT gid FROM pg_prepared_xacts"):
        world.server.ask(f"ROLLBACK PREPARED '{named}'")


def newest_task(world: PostgresWorld) -> CopyTask:
    """What the tasks of the batch under way are told."""
    (left,) = world.left()
    schema = schema_of(world.url)
    assert world.server.ask(f"SELECT obj_description('{schema}.{left}'::regclass, 'pg_class')") == [(world.prefix,)]
    address = parse({"url": world.url, "table": world.table}).address
    attempt = left.removeprefix(STAGING)
    target = ("public", world.table.removeprefix("public.")) if world.options else None
    return CopyTask(address, conninfo(address), address.schema, left, attempt=attempt, target=target)


# The table and the database ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said", "mend"),
    [
        ("ALTER TABLE {t} RENAME TO away", "does not exist", "ALTER TABLE public.away RENAME TO {n}"),
        ("ALTER TABLE {t} RENAME value TO text", "does not exist", "ALTER TABLE {t} RENAME text TO value"),
        (
            "ALTER TABLE {t} ALTER value TYPE int USING 0",
            'column "value" is of type integer but expression is of type text',
            "ALTER TABLE {t} ALTER value TYPE text",
        ),
        ("INSERT INTO {t} VALUES ('a')", "duplicate key value .*already exists", "DELETE FROM {t}"),
        (
            "ALTER TABLE {t} ADD CONSTRAINT c CHECK (value <> 'a')",
            "violates check",
            "ALTER TABLE {t} DROP CONSTRAINT c",
        ),
    ],
)
def test_a_table_that_changed_behind_the_decision_is_named_and_the_restart_completes_the_batch_once_it_is_mended(
    world: PostgresWorld, change: str, said: str, mend: str
) -> None:
    die(world, PostgresCrashPoint.COMMIT)
    parts = {"t": world.table, "n": world.table.removeprefix("public.")}
    world.server.ask(change.format(**parts))

    for run in ("run-2", "run-3"):
        with pytest.raises(TableChangedError, match=f"no longer takes the rows of a decided batch.*{said}"):
            world.run(0, FIRST, run)
    world.server.ask(mend.format(**parts))

    assert world.run(0, FIRST, "run-4").is_replay
    assert world.holds(FIRST)


def test_a_decided_batch_is_committed_by_a_query_whose_url_names_a_new_schema(world: PostgresWorld) -> None:
    """The schema has no table `batches` yet, where the query is marked before its batch becomes visible."""
    die(world, CrashPoint.ROUND_DECIDED)
    world.url = world.server.url()

    assert world.run(0, FIRST, "run-2").is_replay

    assert world.holds(FIRST)
    world.run(1, SECOND, "run-2")
    assert world.holds(FIRST, SECOND)


def test_a_batch_goes_where_its_decision_says_whatever_the_options_say_later(world: PostgresWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    decided_for, world.table = world.table, "public.another_table"

    assert world.run(0, FIRST, "run-2").is_replay
    world.table = decided_for
    assert world.holds(FIRST)


@by_both
def test_a_staging_table_that_is_gone_behind_the_decision_is_never_taken_for_an_empty_one(world: PostgresWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    (left,) = world.left()
    roll_back_all(world)
    world.server.ask(f"DROP TABLE {schema_of(world.url)}.{left}")

    with pytest.raises(CorruptDataError, match="the staging table of a batch is not in this database"):
        world.run(0, FIRST, "run-2")


@by_both
def test_the_marks_of_queries_count_in_all_schemas(world: PostgresWorld) -> None:
    world.run(0, FIRST)
    assert world.lose_ledger()
    world.url = world.server.url()

    with pytest.raises(BatchRefusedError, match=r"the history of this query is in another ledger.*batch_id=0"):
        world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


@by_both
def test_the_database_remembers_few_batches_of_each_prefix(world: PostgresWorld) -> None:
    for batch_id in range(10):
        world.run(batch_id, [str(batch_id)])
    first = world.prefix
    world.prefix = f"another.{first}"
    world.run(0, ["another"])

    schema = schema_of(world.url)
    batches = f"{schema}.batches WHERE row_count > 0"  # the others are the marks of queries
    counts = f"SELECT prefix, count(*), max(row_count) FROM {batches} GROUP BY prefix ORDER BY prefix"
    assert world.server.ask(counts) == [(f"another.{first}", 1, 1), (first, 8, 1)]


def test_a_transaction_that_was_undone_is_never_taken_for_committed(world: PostgresWorld) -> None:
    """To SQL, the COMMIT of a transaction in which a statement failed is no error."""
    target = world.target()
    committers: list[PostgresCommitter] = []
    open_committer = target.open_committer

    def opened(batch: Batch[Job]) -> PostgresCommitter:
        committers.append(cast("PostgresCommitter", open_committer(batch)))
        return committers[-1]

    def fail() -> None:
        with pytest.raises(InvalidRecordError, match="division by zero"):
            committers[-1].database.run(text("SELECT 1 / 0"))

    with pytest.MonkeyPatch.context() as patched, at(CrashPoint.ROUND_DECIDED, fail):
        patched.setattr(target, "open_committer", opened)
        world.run(0, FIRST, target=target)

    assert world.holds(FIRST)


def test_a_session_that_waits_too_long_for_the_decision_is_ended_and_the_batch_committed_by_another(
    world: PostgresWorld,
) -> None:
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    with at(CrashPoint.ROUND_DECIDE, lambda: world.server.ask(ended)):
        world.run(0, FIRST)

    assert world.holds(FIRST)


def test_a_server_that_crashes_at_the_commit_leaves_a_decided_batch_that_a_restart_completes(tmp_path: Path) -> None:
    """What is staged survives the crash also where the database's own setting would not wait for the disk."""
    with running_server("synchronous_commit=off", "wal_writer_delay=10s") as server:
        world = PostgresWorld(tmp_path, server)
        with at(PostgresCrashPoint.COMMIT, server.kill), pytest.raises(DatabaseUnavailableError) as away:
            world.run(0, FIRST)
        assert "the batch is decided" in str(away.value)
        assert "restart the query, which completes it" in str(away.value)

        server.start()
        assert world.run(0, FIRST, "run-2").is_replay
        server.kill()
        server.start()
        assert world.holds(FIRST)
        assert world.left() == []
        world.close()


@by_both
def test_a_pooler_in_transaction_mode_may_stand_in_between(world: PostgresWorld) -> None:
    with pooler(world.server) as port:
        world.url = world.url.replace(f":{world.server.port}/", f":{port}/")
        for batch_id, values in enumerate((FIRST, SECOND)):
            world.run(batch_id, values)

    assert world.holds(FIRST, SECOND)


def test_an_executor_whose_adbc_would_write_wrong_values_is_refused(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging._database.cache_clear()
    monkeypatch.setattr(adbc_driver_postgresql, "__version__", "1.12.0")

    with pytest.raises(UsageError, match=r"too old .*installed='1.12.0', oldest='1.13'"):
        world.run(0, FIRST)


def test_an_error_of_a_task_keeps_its_class_on_the_way_through_spark() -> None:
    def failed(name: str) -> Exception:
        """What PySpark raises of it, without its pages of stack traces."""
        return RuntimeError(f"Job aborted\n{name}: the reason [staging='s']\n\n\tat org.apache.spark.Somewhere")

    for name, kind in (
        ("oncelog_postgres.errors.DatabaseAccessError", DatabaseAccessError),
        ("oncelog.errors.InvalidRecordError", InvalidRecordError),
        ("oncelog_postgres.errors.OfAnotherVersionError", OncelogError),
        ("oncelog_postgres.failures.OvertakenError", OvertakenError),
        ("oncelog_postgres.failures.KeyTwiceError", KeyTwiceError),
    ):
        with pytest.raises(OncelogError) as told, task_errors.in_one_sentence():
            raise failed(name)
        assert (type(told.value), str(told.value)) == (kind, "the reason [staging='s']")
