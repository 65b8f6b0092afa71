"""Upserts into tables of both formats: one row for each key, that of the newest batch, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakes import BEFORE_THE_DECISION, BEHIND_THE_DECISION, ArrowJob, DeltaWorld, IcebergWorld
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidRecordError, RunSupersededError, UsageError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_tables.crash_points import TablesCrashPoint

pytestmark = pytest.mark.usefixtures("spark")  # it reads and writes the keys

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string(), "more": pa.string()})

World = DeltaWorld | IcebergWorld

WORLDS: dict[str, type[World]] = {"delta": DeltaWorld, "iceberg": IcebergWorld}

OLD = [(1, "a"), (2, "b"), (3, "c")]
NEW = [(2, "B"), (4, "D")]
BOTH = [(1, "a"), (2, "B"), (3, "c"), (4, "D")]


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(tmp_path: Path, kind: str) -> Iterator[World]:
    found = WORLDS[kind](tmp_path, SCHEMA, ("id",))
    yield found
    assert found.left() == []
    found.close()


class Pairs(ArrowJob):
    """Rows of an id and a value each."""

    def __init__(self, pairs: Sequence[tuple[int | None, str]]) -> None:
        ids = pa.array([number for number, _ in pairs], pa.int64())
        super().__init__(pa.table({"id": ids, "value": pa.array([value for _, value in pairs], pa.string())}))


def run(world: World, batch_id: int, pairs: Sequence[tuple[int | None, str]], run_id: str = "run-1") -> Any:
    return world.run_job(batch_id, Pairs(pairs), run_id)


def pairs_in(world: World) -> list[tuple[int, str]]:
    return sorted((row["id"], row["value"]) for row in world.rows())


def test_a_row_replaces_that_of_its_key_and_others_stay(world: World) -> None:
    assert run(world, 0, OLD).rows == 3
    assert run(world, 1, NEW).rows == 2
    assert pairs_in(world) == BOTH

    run(world, 2, [(number, "again") for number, _ in BOTH])
    assert pairs_in(world) == [(number, "again") for number, _ in BOTH]


def test_the_name_of_a_folder_is_no_pattern(tmp_path: Path, kind: str) -> None:
    (tmp_path / "[lake] {1}").mkdir()
    world = WORLDS[kind](tmp_path / "[lake] {1}", SCHEMA, ("id",))
    run(world, 0, OLD)
    run(world, 1, NEW)

    assert pairs_in(world) == BOTH
    world.close()


def test_a_row_is_the_whole_row(world: World) -> None:
    rows = pa.table({"ID": pa.array([1], pa.int64()), "value": ["a"], "more": ["more"]})
    world.run_job(0, ArrowJob(rows))
    assert world.rows() == [{"id": 1, "value": "a", "more": "more"}]

    world.run_job(1, ArrowJob(rows.drop(["more"])))

    assert [row.get("more") for row in world.rows()] == [None]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(1, "a"), (2, "b"), (1, "c")], r"two rows of the batch have the same key, .*key=\{'id': 1\}"),
        ([(1, "a"), (None, "b")], r"a row has no value in a key column, .*columns=\['id'\]"),
    ],
)
def test_a_batch_that_cannot_replace_rows_is_refused_before_the_decision(
    world: World, pairs: Sequence[tuple[int | None, str]], said: str
) -> None:
    run(world, 0, OLD)
    with (
        at(TablesCrashPoint.DURABLE, lambda: None) as passed,
        pytest.raises(InvalidRecordError, match=said),
    ):
        run(world, 1, pairs)

    assert TablesCrashPoint.DURABLE not in passed
    assert pairs_in(world) == OLD
    assert not run(world, 1, NEW, "run-2").is_replay
    assert pairs_in(world) == BOTH


@pytest.mark.sampled
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_a_driver_that_stops_anywhere_leaves_one_row_for_each_key_and_no_files(world: World, point: str) -> None:
    run(world, 0, OLD)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        run(world, 1, NEW)
    if point in BEFORE_THE_DECISION:
        assert pairs_in(world) == OLD

    report = run(world, 1, NEW, "run-2")
    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert pairs_in(world) == BOTH
    run(world, 2, [(4, "last")], "run-2")

    assert pairs_in(world) == [*BOTH[:-1], (4, "last")]


@pytest.mark.sampled("upserts into tables")
def test_of_two_drivers_that_commit_at_the_same_time_one_does(world: World) -> None:
    """The older one has looked, and found the batch missing; then its successor commits, and goes on."""
    run(world, 0, OLD)

    def go_on() -> None:
        run(world, 1, NEW, "run-2")
        run(world, 2, [(2, "newest")], "run-2")

    with at(TablesCrashPoint.COMMIT, go_on), suppress(RunSupersededError):
        run(world, 1, NEW)

    assert pairs_in(world) == [(1, "a"), (2, "newest"), (3, "c"), (4, "D")]


def test_a_batch_is_carried_out_as_it_was_decided_whatever_the_options_say_later(world: World) -> None:
    run(world, 0, OLD)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        run(world, 1, NEW)

    world.key_columns = ()
    run(world, 1, NEW, "run-2")
    assert pairs_in(world) == BOTH


def test_a_key_that_is_there_twice_is_replaced_as_its_format_does_it(world: World, kind: str) -> None:
    run(world, 0, OLD)
    world.key_columns = ()
    run(world, 1, [(1, "added")])
    assert pairs_in(world) == [(1, "a"), (1, "added"), *OLD[1:]]

    world.key_columns = ("id",)
    run(world, 2, [(1, "one")])

    assert pairs_in(world) == [(1, "one")] * (2 if kind == "delta" else 1) + OLD[1:]


@pytest.mark.parametrize(
    ("key_columns", "said"),
    [
        (("nothing",), "the table has no such column.*keyColumns='nothing'"),
        (("at",), "cannot be replaced by a column of this type.*column='at', type='double'"),
    ],
)
def test_a_key_that_a_table_cannot_have_is_refused_by_name(
    tmp_path: Path, kind: str, key_columns: tuple[str, ...], said: str
) -> None:
    world = WORLDS[kind](tmp_path, pa.schema({"id": pa.int64(), "value": pa.string(), "at": pa.float64()}), key_columns)

    with pytest.raises(UsageError, match=said):
        run(world, 0, OLD)
    world.key_columns = ("value",)
    with pytest.raises(InvalidRecordError, match=r"they are keyColumns.*missing=\['value'\]"):
        world.run_job(0, ArrowJob(pa.table({"id": pa.array([1], pa.int64())})), "run-2")
    world.close()
