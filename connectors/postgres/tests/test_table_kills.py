"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.crash_points import CrashPoint
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import PATIENCE_S
from worlds import left_staging, new_table

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    PostgresCrashPoint.STAGED,
    PostgresCrashPoint.COPIED,
    PostgresCrashPoint.WRITTEN,
    PostgresCrashPoint.PREPARED,
    CrashPoint.ROUND_DECIDE,
)
BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    PostgresCrashPoint.COMMIT,
    PostgresCrashPoint.COMMITTED,
    PostgresCrashPoint.DROPPED,
    CrashPoint.SINK_DONE,
)
PASSED = BEFORE_THE_DECISION + BEHIND_THE_DECISION
"""Every point that a batch passes."""

IN_THE_TABLE = (PostgresCrashPoint.COMMITTED, PostgresCrashPoint.DROPPED, CrashPoint.SINK_DONE)

ROWS = 10
"""Of a batch."""

OPTIONS: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "keyColumns": "id"}}


class World:
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, server: PostgresServer, folder: Path, mode: str) -> None:
        self.server = server
        self.folder = folder
        self.written: list[tuple[int, str]] = []
        self.url = server.url()
        self.table = new_table(server, "id int NOT NULL, value text" + ", PRIMARY KEY (id)" * (mode == "upsert"))
        self._sink = {"url": self.url, "table": self.table, "transactionalIdPrefix": "killed", **OPTIONS[mode]}
        self._program: Program | None = None
        self._lives = 0
        (folder / "in").mkdir()

    @property
    def mark(self) -> Path:
        return self.folder / f"{self._lives}.mark"

    def write(self) -> None:
        """One more batch."""
        rows = [(len(self.written) + at, f"value {at}") for at in range(ROWS)]
        hidden = self.folder / ".hidden"
        hidden.write_text("\n".join(json.dumps({"id": number, "value": value}) for number, value in rows))
        hidden.rename(self.folder / "in" / f"{len(self.written):05d}.json")
        self.written += rows

    def live(self, point: str) -> Program:
        """Begin a life that passes the point unharmed until `die`."""
        self._lives += 1
        self.mark.touch()
        settings = {
            "source": str(self.folder / "in"),
            "checkpoint": str(self.folder / "checkpoint"),
            "sink": self._sink,
            "crash_point": point,
            "mark": str(self.mark),
        }
        self._program = start_job("postgres_copier", settings, self.folder, f"life-{self._lives}")
        return self._program

    def die(self, point: str) -> None:
        """Recover, and be killed at the point in the next batch."""
        program = self.live(point)
        self.recover()
        self.mark.unlink()
        self.write()
        program.wait_killed()

    def recover(self) -> None:
        """Wait until everything that was written is there, once, and nothing else is left."""

        def is_there() -> bool:
            assert self._program is not None
            self._program.check_runs()
            return len(self.found()) >= len(self.written)

        until(is_there, within_s=PATIENCE_S)
        assert self.found() == self.written
        until(lambda: not left_staging(self.server, self.url))

    def found(self) -> list[tuple[object, ...]]:
        return self.server.ask(f"SELECT id, value FROM {self.table} ORDER BY id")

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()


@pytest.fixture
def world(postgres: PostgresServer, tmp_path: Path, mode: str) -> Iterator[World]:
    require_java()
    found = World(postgres, tmp_path, mode)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of PostgreSQL's |" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(PostgresCrashPoint) <= set(PASSED)


@pytest.mark.walk("a driver that is killed leaves one copy in a table")
@pytest.mark.parametrize("mode", OPTIONS)
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World) -> None:
    world.write()
    for point in PASSED:
        world.die(point)
        expected = world.written if point in IN_THE_TABLE else world.written[:-ROWS]
        assert world.found() == expected, point
    world.live(CrashPoint.SINK_DONE)
    world.recover()
