"""Two sinks under one decision that write into one database: the same rows, or tables that refer to each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidRecordError, NotPreparedError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_postgres import options as sink_options
from oncelog_postgres import sessions
from oncelog_postgres.batch_sink import PostgresTarget
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.servers.postgres import PostgresServer
from worlds import ArrowJob, PostgresWorld, keyed, left_staging, new_table

UPSERT = {"mode": "upsert", "keyColumns": "id"}
POINTS = (
    PostgresCrashPoint.PREPARED,
    CrashPoint.ROUND_DECIDED,
    PostgresCrashPoint.COMMIT,
    PostgresCrashPoint.COMMITTED,
    PostgresCrashPoint.DROPPED,
)


class Both:
    """Two sinks, which write batches together.

    Args:
        world: has the ledger.
        options: of each sink, beside its url and what its history needs.
    """

    def __init__(self, world: PostgresWorld, *options: dict[str, Any]) -> None:
        self._world = world
        self._options = options

    def run(self, batch_id: int, *jobs: ArrowJob, run: str = "run-1") -> BatchReport:
        targets = [
            PostgresTarget(self._world.store, sink_options.parse({"url": self._world.url, **options}))
            for options in self._options
        ]
        asked = [
            BatchRequest(f"{self._world.prefix}-{number}", "query", "sink", run, batch_id, f"offsets of {batch_id}")
            for number in range(len(targets))
        ]
        batches = [Batch(request, job) for request, job in zip(asked, jobs, strict=True)]
        return BatchDriver(*targets).run(*batches)


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, postgres, "id int PRIMARY KEY, value text")
    yield found
    assert found.left() == []
    found.close()


@pytest.fixture
def both(world: PostgresWorld) -> Both:
    """Two sinks that write into the same table."""
    return Both(world, {"table": world.table, **UPSERT}, {"table": world.table, **UPSERT})


def test_two_sinks_may_replace_the_same_row_and_the_later_one_wins(world: PostgresWorld, both: Both) -> None:
    both.run(0, keyed((1, "a"), (2, "b")), keyed((1, "c"), (3, "d")))
    both.run(1, keyed((3, "e")), keyed((3, "f")))

    assert world.found() == [(1, "c"), (2, "b"), (3, "f")]


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_dies_with_the_common_transaction_leaves_one_copy(
    world: PostgresWorld, both: Both, point: str
) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        both.run(0, keyed((1, "a")), keyed((1, "b"), (2, "b")))

    report = both.run(0, keyed((1, "a")), keyed((1, "b"), (2, "b")), run="run-2")

    assert report.is_replay == (point is not PostgresCrashPoint.PREPARED)
    assert world.found() == [(1, "b"), (2, "b")]


@pytest.mark.parametrize("schema", ["", "another"])
def test_rows_may_refer_to_rows_of_the_same_batch_in_another_table(world: PostgresWorld, schema: str) -> None:
    lines = new_table(world.server, f"id int REFERENCES {world.table}, value text")
    other = {"url": world.url.replace("schema=", "schema=other_")} if schema else {}
    both = Both(world, {"table": world.table}, {"table": lines, **other})

    both.run(0, keyed((1, "order")), keyed((1, "line"), (1, "line")))

    assert world.server.ask(f"SELECT id, value FROM {lines}") == [(1, "line")] * 2
    assert left_staging(world.server, other.get("url", world.url)) == []


def test_what_one_table_refuses_is_written_into_neither(world: PostgresWorld) -> None:
    picky = new_table(world.server, "id int CHECK (id < 5), value text")
    both = Both(world, {"table": world.table}, {"table": picky})

    with pytest.raises(InvalidRecordError, match="violates check constraint"):
        both.run(0, keyed((1, "a")), keyed((7, "b")))
    assert (world.found(), world.left()) == ([], [])

    both.run(0, keyed((1, "a")), keyed((2, "b")), run="run-2")
    assert world.found() == [(1, "a")]


def test_a_lost_session_loses_no_rows_of_either(world: PostgresWorld, both: Both) -> None:
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    with at(CrashPoint.ROUND_DECIDED, lambda: world.server.ask(ended)):
        both.run(0, keyed((1, "a"), (2, "a")), keyed((1, "b")))

    assert world.found() == [(1, "b"), (2, "a")]


def test_sinks_that_cannot_share_a_transaction_say_soon_what_they_wait_for(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "WAITS_FOR_OTHERS_MS", 200)
    other = {"url": f"{world.url}&application_name=other"}
    both = Both(world, {"table": world.table, **UPSERT}, {"table": world.table, **UPSERT, **other})

    with pytest.raises(NotPreparedError, match=r"stayed locked.*sinks of one together the same url.*nothing was dec"):
        both.run(0, keyed((1, "a")), keyed((1, "b")))

    assert (world.found(), world.left()) == ([], [])
    both.run(0, keyed((1, "a")), keyed((2, "b")), run="run-2")
    assert world.found() == [(1, "a"), (2, "b")]
