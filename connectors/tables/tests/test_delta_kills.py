"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakes import BEFORE_THE_DECISION, BEHIND_THE_DECISION, create_delta, delta_rows, left_folders
from oncelog.crash_points import CrashPoint
from oncelog_tables.crash_points import TablesCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_THE_TABLE = (TablesCrashPoint.COMMITTED, CrashPoint.SINK_DONE)

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.written: list[tuple[int, str]] = []
        self.table = folder / "table"
        create_delta(self.table, pa.schema({"id": pa.int32(), "value": pa.string()}), partition_by=["value"])

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at % 2}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        sink = {"path": str(self.table), "znodes": str(self.folder / "ledger"), "transactionalIdPrefix": "killed"}
        return self._start("table_copier", {"format": "delta", "source": str(self.folder / "in"), "sink": sink}, point)

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(lambda: not left_folders(self.table))

    def found(self) -> list[tuple[int, str]]:
        return sorted((row["id"], row["value"]) for row in delta_rows(self.table))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    require_java()
    found = World(tmp_path)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of tables of a lake |" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(TablesCrashPoint) <= set(PASSED)


@pytest.mark.walk("a killed driver leaves one copy in a Delta table")
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World) -> None:
    world.write()
    for point in PASSED:
        world.die(point)
        expected = world.written if point in IN_THE_TABLE else world.written[:-ROWS]
        assert world.found() == expected, point
    world.live(CrashPoint.SINK_DONE)
    world.recover()
