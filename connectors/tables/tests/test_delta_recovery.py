"""What is left by drivers that stop, wake up late, or meet another table, another writer, or files that are gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from lakes import BEFORE_THE_DECISION, BEHIND_THE_DECISION, DeltaWorld, create_delta
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, NotPreparedError, RunSupersededError
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, always_at, at, stop
from oncelog_tables import committer
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.delta_tables import OpenDeltaTable
from oncelog_tables.errors import TableChangedError, TableUnavailableError

pytestmark = pytest.mark.usefixtures("spark")  # it finds files


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DeltaWorld]:
    found = DeltaWorld(tmp_path)
    yield found
    found.close()


def die(world: DeltaWorld, point: str, batch_id: int = 0) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, FIRST)


def append(world: DeltaWorld, *values: str) -> None:
    """Another writer's commit."""
    write_deltalake(str(world.table), pa.table({"value": list(values)}), mode="append")


@pytest.mark.sampled
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_a_driver_that_stops_anywhere_leaves_one_copy_and_no_files(world: DeltaWorld, point: str) -> None:
    die(world, point)
    if point in BEFORE_THE_DECISION:
        assert world.visible() == []

    report = world.run(0, FIRST, "run-2")
    world.run(1, SECOND, "run-2")

    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert world.holds(FIRST, SECOND)
    assert world.left() == []


def test_of_two_drivers_that_commit_at_the_same_time_one_does(world: DeltaWorld) -> None:
    """The older one has looked, and found the batch missing; then its successor commits, and goes on."""

    def go_on() -> None:
        world.run(0, FIRST, "run-2")
        world.run(1, SECOND, "run-2")

    with at(TablesCrashPoint.COMMIT, go_on), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST, SECOND)
    assert DeltaTable(str(world.table)).version() == 2


def test_writers_at_the_same_time_lose_and_double_nothing(world: DeltaWorld) -> None:
    with always_at(TablesCrashPoint.COMMIT, lambda: append(world, "theirs")):
        world.run(0, FIRST)
        world.run(1, SECOND)

    assert world.holds(FIRST, SECOND, ["theirs", "theirs"])


def test_a_log_that_refuses_every_commit_is_told_with_its_reason(
    world: DeltaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CommitFailedError("for no reason")

    with monkeypatch.context() as patched:
        patched.setattr(committer, "TRIES", 3)
        patched.setattr(DeltaTable, "create_write_transaction", refuse)
        with pytest.raises(TableUnavailableError, match=r"refuses the commit .*the batch is decided.*for no reason"):
            world.run(0, FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_a_commit_whose_answer_is_lost_is_made_once(world: DeltaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = OpenDeltaTable.commit

    def lose_answer(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise TableUnavailableError("the answer is lost")

    with monkeypatch.context() as patched:
        patched.setattr(OpenDeltaTable, "commit", lose_answer)
        with pytest.raises(TableUnavailableError, match="the answer is lost; the batch is decided"):
            world.run(0, FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


# The table ----------------------------------------------------------------------------------------------------------


def replace_table(world: DeltaWorld) -> Callable[[], None]:
    """Put another table in its place, with as many commits; returns what puts it back."""
    kept = world.folder / "kept"
    world.table.rename(kept)
    create_delta(world.table, world.schema)
    append(world, "new")

    def put_back() -> None:
        shutil.rmtree(world.table)
        kept.rename(world.table)

    return put_back


def remove_table(world: DeltaWorld) -> Callable[[], None]:
    kept = world.folder / "kept"
    world.table.rename(kept)

    def put_back() -> None:
        shutil.rmtree(world.table, ignore_errors=True)
        kept.rename(world.table)

    return put_back


def change_schema(world: DeltaWorld) -> Callable[[], None]:
    def overwrite(values: pa.Array) -> None:
        table = pa.table({"value": values})
        write_deltalake(str(world.table), table, mode="overwrite", schema_mode="overwrite")

    overwrite(pa.array([], pa.int64()))
    return lambda: overwrite(pa.array([], pa.string()))


def change_partitions(world: DeltaWorld) -> Callable[[], None]:
    def overwrite(by: list[str]) -> None:
        table = pa.table({"value": pa.array([], pa.string())})
        write_deltalake(str(world.table), table, mode="overwrite", schema_mode="overwrite", partition_by=by)

    write_deltalake(
        str(world.table),
        pa.table({"value": pa.array([], pa.string()), "day": pa.array([], pa.string())}),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["day"],
    )
    return lambda: overwrite([])


def add_constraint(world: DeltaWorld) -> Callable[[], None]:
    DeltaTable(str(world.table)).alter.add_constraint({"known": "value <> 'a'"})
    return lambda: DeltaTable(str(world.table)).alter.drop_constraint("known")


CHANGES = [
    (replace_table, "another table has taken the place"),
    (remove_table, "no Delta table in this place"),
    (change_schema, "cast it to bigint"),
    (change_partitions, "partitioned in another way"),
    (add_constraint, "CHECK constraints"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_table_that_changed_behind_the_decision_is_named_and_the_restart_completes_the_batch_once_it_is_mended(
    world: DeltaWorld, change: Callable[[DeltaWorld], Callable[[], None]], said: str
) -> None:
    append(world, "before")
    target = world.target()
    mend: list[Callable[[], None]] = []
    with (
        at(CrashPoint.ROUND_DECIDED, lambda: mend.append(change(world))),
        pytest.raises(TableChangedError, match=f"no longer takes the files of a decided batch: .*{said}"),
    ):
        world.run(0, FIRST, target=target)

    with pytest.raises(TableChangedError, match="the batch is decided, and its files are safe"):
        world.run(0, FIRST, "run-2", target=target)
    mend[0]()

    assert world.run(0, FIRST, "run-3", target=target).is_replay
    assert world.holds(FIRST, ["before"] if change in {replace_table, remove_table, add_constraint} else [])


@pytest.mark.sampled
@pytest.mark.parametrize(("change", "said"), [CHANGES[0], CHANGES[2]])
def test_a_table_that_changes_while_the_batch_is_written_decides_nothing(
    world: DeltaWorld, change: Callable[[DeltaWorld], Callable[[], None]], said: str
) -> None:
    mend: list[Callable[[], None]] = []
    with (
        at(TablesCrashPoint.DURABLE, lambda: mend.append(change(world))),
        pytest.raises(NotPreparedError, match=f"{said}.*nothing was decided"),
    ):
        world.run(0, FIRST)
    mend[0]()

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_a_column_that_is_added_behind_the_decision_is_no_hindrance(world: DeltaWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    DeltaTable(str(world.table)).alter.add_columns([Field("more", PrimitiveType("string"))])

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_a_batch_goes_where_its_decision_says_whatever_the_options_say_later(world: DeltaWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    decided_for, world.table = world.table, world.folder / "another"
    create_delta(world.table, world.schema)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.visible() == []
    world.table = decided_for
    assert world.holds(FIRST)


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_files_that_are_gone_behind_the_decision_are_never_taken_for_none(world: DeltaWorld, damage: str) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    file = next(world.table.glob("oncelog/*/part-0.parquet"))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(CorruptDataError, match=r"the files of a decided batch are not .* as they were written"):
        world.run(0, FIRST, "run-2")
    assert world.visible() == []


def test_the_table_knows_the_batch_when_commits_and_snapshots_are_gone(world: DeltaWorld) -> None:
    """Compaction replaces the files, a checkpoint the commits: what the table remembers of the sink stays."""
    with at(TablesCrashPoint.COMMITTED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    table = DeltaTable(str(world.table))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    for commit in sorted((world.table / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert not list(world.table.glob("oncelog/*/*.parquet")), "they can be removed as any file of the table"

    assert world.run(0, FIRST, "run-2").is_replay
    world.run(1, SECOND, "run-2")

    assert sorted(DeltaTable(str(world.table)).to_pyarrow_table()["value"].to_pylist()) == sorted([*FIRST, *SECOND])


def test_the_commit_says_of_whom_it_is(world: DeltaWorld) -> None:
    world.run(0, FIRST)

    (_, commit) = sorted((world.table / "_delta_log").glob("*.json"))
    actions = {name: body for line in commit.read_text().splitlines() for name, body in json.loads(line).items()}
    assert actions["commitInfo"]["userMetadata"] == "oncelog contract/query batch 0"
    assert actions["commitInfo"]["isBlindAppend"] is True
    assert (actions["txn"]["appId"], actions["txn"]["version"]) == ("contract/query", 0)
