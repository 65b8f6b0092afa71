"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die. What is there is read by PyArrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from folder_worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, left_staging, visible
from oncelog.crash_points import CrashPoint
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_PLACE = (FilesCrashPoint.SHOWN, FilesCrashPoint.PUBLISHED, FilesCrashPoint.REMOVED, CrashPoint.SINK_DONE)

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.out = folder / "out"
        self.written: list[tuple[int, str]] = []

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        settings = {"source": str(self.folder / "in"), "sink": self.sink(), "spark": self.spark()}
        return self._start("files_copier", settings, point)

    def sink(self) -> dict[str, str]:
        """The options of the sink."""
        return {"path": str(self.out), "transactionalIdPrefix": "killed"}

    def spark(self) -> dict[str, str]:
        """Settings of the session."""
        return {}

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(self.is_clean)

    def is_clean(self) -> bool:
        return not left_staging(self.out)

    def found(self) -> list[tuple[Any, ...]]:
        return visible(self.out, "id", "value")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    require_java()
    found = World(tmp_path)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of files'" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(FilesCrashPoint) <= set(PASSED)


@pytest.mark.walk("a killed driver leaves one copy in a folder")
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy_in_the_folder(world: World) -> None:
    world.write()
    for point in PASSED:
        world.die(point)
        expected = world.written if point in IN_PLACE else world.written[:-ROWS]
        assert world.found() == expected, point
    world.live(CrashPoint.SINK_DONE)
    world.recover()
