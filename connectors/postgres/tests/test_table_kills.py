"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from oncelog.crash_points import CrashPoint
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.lives import Lives, walks
from tests.support.spark.processes import Program
from worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, left_staging, new_table

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes, but for PIECE."""

IN_THE_TABLE = (
    PostgresCrashPoint.COMMITTED,
    PostgresCrashPoint.DROPPED,
    CrashPoint.SINK_DONE,
)

ROWS = 10
"""Of a batch."""

OPTIONS: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "keyColumns": "id"},
    "append by tasks": {"transaction": "task"},
}


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, server: PostgresServer, folder: Path, mode: str) -> None:
        super().__init__(folder)
        self.server = server
        self.written: list[tuple[int, str]] = []
        self.url = server.url()
        self.table = new_table(server, "id int NOT NULL, value text" + ", PRIMARY KEY (id)" * (mode == "upsert"))
        self._sink = {"url": self.url, "table": self.table, "transactionalIdPrefix": "killed", **OPTIONS[mode]}

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        return self._copy("oncelog_postgres:sink", self._sink, point, PostgresCrashPoint)

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(lambda: not left_staging(self.server, self.url))

    def found(self) -> list[tuple[object, ...]]:
        return self.server.ask(f"SELECT id, value FROM {self.table} ORDER BY id")


@pytest.fixture
def world(postgres: PostgresServer, tmp_path: Path, mode: str) -> Iterator[World]:
    require_java()
    found = World(postgres, tmp_path, mode)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED) + 1} of PostgreSQL's;" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(PostgresCrashPoint) <= {*PASSED, PostgresCrashPoint.PIECE}


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("points", walks(PASSED))
@pytest.mark.parametrize("mode", OPTIONS)
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World, points: Sequence[str]) -> None:
    world.walk(points, lambda point: world.written if point in IN_THE_TABLE else world.written[:-ROWS])


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("mode", ["append by tasks"])
def test_a_driver_that_is_killed_between_two_tasks_transactions_leaves_exactly_one_copy(world: World) -> None:
    world.write()
    world.die(PostgresCrashPoint.PIECE)
    assert set(world.written[:-ROWS]) < set(world.found()) < set(world.written), "one task's rows of two"
    world.live(CrashPoint.SINK_DONE)
    world.recover()
