"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die. What is there is read by PyArrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from killed_folders import IN_PLACE, PASSED, ROWS, World
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.spark.lives import walks


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


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("points", walks(PASSED))
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy_in_the_folder(
    world: World, points: Sequence[str]
) -> None:
    world.walk(points, lambda point: world.written if point in IN_PLACE else world.written[:-ROWS])
