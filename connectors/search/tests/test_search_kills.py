"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncelog.crash_points import CrashPoint
from oncelog_search.crash_points import SearchCrashPoint
from search_worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.opensearch import OpenSearch
from tests.support.spark.lives import Lives, walks
from tests.support.spark.processes import Program
from tests.support.spark.staging import left_staging

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_PLACE = (SearchCrashPoint.SENT, SearchCrashPoint.PUBLISHED, SearchCrashPoint.REMOVED, CrashPoint.SINK_DONE)

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, folder: Path, opensearch: OpenSearch) -> None:
        super().__init__(folder)
        self.opensearch = opensearch
        self.index = opensearch.new_index({"id": {"type": "integer"}, "value": {"type": "keyword"}})
        self.staging = folder / "staging"
        self.written: list[tuple[int, str]] = []

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        sink = {"url": self.opensearch.url, "index": self.index, "staging": str(self.staging)}
        return self._copy("oncelog_search:sink", {**sink, "transactionalIdPrefix": "killed"}, point, SearchCrashPoint)

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(lambda: not left_staging(self.staging))

    def found(self) -> list[tuple[int, str]]:
        documents = self.opensearch.documents(self.index).values()
        return sorted((document["id"], document["value"]) for document in documents)


@pytest.fixture
def world(tmp_path: Path, opensearch: OpenSearch) -> Iterator[World]:
    require_java()
    found = World(tmp_path, opensearch)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of the search sink's" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(SearchCrashPoint) <= set(PASSED)


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("points", walks(PASSED))
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy_in_the_index(
    world: World, points: Sequence[str]
) -> None:
    world.walk(points, lambda point: world.written if point in IN_PLACE else world.written[:-ROWS])
