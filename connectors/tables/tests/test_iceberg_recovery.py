"""What is left by drivers that stop, wake up late, or meet another table, another writer, or snapshots that expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.types import DecimalType, LongType, StringType, UUIDType
from pyspark.sql import SparkSession

from lakes import BEFORE_THE_DECISION, BEHIND_THE_DECISION, ArrowJob, IcebergWorld, create_iceberg, iceberg_entries
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, InvalidRecordError, NotPreparedError, RunSupersededError
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, always_at, at, stop
from oncelog_tables import committer, iceberg_metrics
from oncelog_tables.columns import WrittenColumn
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.errors import TableChangedError, TableUnavailableError
from oncelog_tables.iceberg_tables import BATCHES
from oncelog_tables.jobs import SparkJob

pytestmark = pytest.mark.usefixtures("spark")  # it finds files


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IcebergWorld]:
    found = IcebergWorld(tmp_path)
    yield found
    found.close()


def die(world: IcebergWorld, point: str, batch_id: int = 0) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, FIRST)


def change(world: IcebergWorld, action: Callable[[Table], object]) -> None:
    """What somebody else does to the table."""
    with closing(load_catalog("lake", **world.catalog)) as catalog:
        action(catalog.load_table(world.table))


def append(world: IcebergWorld, *values: str) -> None:
    """Another writer's commit."""
    change(world, lambda table: table.append(pa.table({"value": list(values)})))


@pytest.mark.sampled
@pytest.mark.parametrize("point", [*BEFORE_THE_DECISION, *BEHIND_THE_DECISION])
def test_a_driver_that_stops_anywhere_leaves_one_copy_and_no_files(world: IcebergWorld, point: str) -> None:
    die(world, point)
    if point in BEFORE_THE_DECISION:
        assert world.visible() == []

    report = world.run(0, FIRST, "run-2")
    world.run(1, SECOND, "run-2")

    assert report.is_replay == (point in BEHIND_THE_DECISION)
    assert world.holds(FIRST, SECOND)
    assert world.left() == []


@pytest.mark.sampled("tables")
def test_of_two_drivers_that_commit_at_the_same_time_one_does(world: IcebergWorld) -> None:
    """The older one has looked, and found the batch missing; then its successor commits, and goes on."""

    def go_on() -> None:
        world.run(0, FIRST, "run-2")
        world.run(1, SECOND, "run-2")

    with at(TablesCrashPoint.COMMIT, go_on), suppress(RunSupersededError):
        world.run(0, FIRST, "run-1")

    assert world.holds(FIRST, SECOND)
    assert len(world.loaded().metadata.snapshots) == 2


def test_of_two_drivers_whose_commits_meet_in_the_catalog_one_does(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one has made its snapshot, and is about to hand it in. pyiceberg alone would hand it in again."""
    hand_in = SqlCatalog.commit_table
    met: list[str] = []

    def after_another(catalog: SqlCatalog, table: Table, requirements: tuple, updates: tuple) -> object:  # type: ignore[type-arg]
        if not met:
            met.append("met")
            world.run(0, FIRST, "run-2")
        return hand_in(catalog, table, requirements, updates)

    retries = {TableProperties.COMMIT_NUM_RETRIES: "4"}
    change(world, lambda table: table.transaction().set_properties(retries).commit_transaction())
    with monkeypatch.context() as patched, suppress(RunSupersededError):
        patched.setattr(SqlCatalog, "commit_table", after_another)
        world.run(0, FIRST, "run-1")

    assert met == ["met"]
    assert world.holds(FIRST)
    assert len(world.loaded().metadata.snapshots) == 1
    assert world.loaded().properties[TableProperties.COMMIT_NUM_RETRIES] == "4", "the sink's own is not written"


def test_writers_at_the_same_time_lose_and_double_nothing(world: IcebergWorld) -> None:
    for batch_id, values in enumerate((FIRST, SECOND)):
        with at(TablesCrashPoint.COMMIT, lambda: append(world, "theirs")):
            world.run(batch_id, values)

    assert world.holds(FIRST, SECOND, ["theirs", "theirs"])


@pytest.mark.sampled("tables")
def test_a_catalog_that_refuses_every_commit_is_told_and_the_restart_completes_the_batch(world: IcebergWorld) -> None:
    with (
        always_at(TablesCrashPoint.COMMIT, lambda: append(world, "theirs")),
        pytest.MonkeyPatch.context() as patched,
        pytest.raises(TableUnavailableError, match=r"refuses the commit .*the batch is decided.*tries=3"),
    ):
        patched.setattr(committer, "TRIES", 3)
        world.run(0, FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST, ["theirs"] * 3)


@pytest.mark.sampled("tables")
def test_a_commit_whose_answer_is_lost_is_made_once(world: IcebergWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in = SqlCatalog.commit_table

    def lose_answer(catalog: SqlCatalog, *arguments: object) -> object:
        hand_in(catalog, *arguments)  # type: ignore[arg-type]
        raise CommitStateUnknownException("the answer is lost")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", lose_answer)
        with pytest.raises(TableUnavailableError, match=r"the batch is decided.*the answer is lost"):
            world.run(0, FIRST)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_the_table_knows_the_batch_when_the_snapshot_has_expired_and_its_files_were_written_anew(
    world: IcebergWorld,
) -> None:
    with at(TablesCrashPoint.COMMITTED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    change(world, lambda table: table.overwrite(table.scan().to_arrow()))
    later = datetime.now() + timedelta(days=1)  # noqa: DTZ005 - pyiceberg takes local times
    change(world, lambda table: table.maintenance.expire_snapshots().older_than(later).commit())
    assert not any("oncelog.app-id" in str(snapshot.summary) for snapshot in world.loaded().metadata.snapshots)

    assert world.run(0, FIRST, "run-2").is_replay

    assert sorted(world.loaded().scan().to_arrow()["value"].to_pylist()) == list(FIRST)


@pytest.mark.sampled("tables")
def test_the_snapshot_and_the_table_say_of_whom_the_batch_is(world: IcebergWorld) -> None:
    world.run(0, FIRST)
    world.run(1, SECOND)

    table = world.loaded()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["oncelog.app-id"], snapshot.summary["oncelog.batch-id"]) == ("contract/query", "1")
    assert snapshot.summary["added-records"] == str(len(SECOND))
    assert table.properties[f"{BATCHES}contract/query"] == "1"


# The table ----------------------------------------------------------------------------------------------------------


def replace_table(world: IcebergWorld) -> None:
    with closing(load_catalog("lake", **world.catalog)) as catalog:
        catalog.drop_table(world.table)
    create_iceberg(world.catalog, world.table, world.schema)


def drop_table(world: IcebergWorld) -> None:
    with closing(load_catalog("lake", **world.catalog)) as catalog:
        catalog.drop_table(world.table)


def rename_column(world: IcebergWorld) -> None:
    change(world, lambda table: table.update_schema().rename_column("value", "other").commit())


def partition(world: IcebergWorld) -> None:
    change(world, lambda table: table.update_spec().add_identity("value").commit())


@pytest.mark.sampled("tables")
@pytest.mark.parametrize(
    ("do", "said"),
    [
        (replace_table, "another table has taken the place"),
        (drop_table, "the catalog has no such table"),
    ],
)
def test_a_table_that_changed_is_named_before_the_decision_and_behind_it(
    world: IcebergWorld, do: Callable[[IcebergWorld], None], said: str
) -> None:
    with at(TablesCrashPoint.DURABLE, lambda: do(world)), pytest.raises(NotPreparedError, match=said):
        world.run(0, FIRST)

    if do is drop_table:
        create_iceberg(world.catalog, world.table, world.schema)
    with (
        at(CrashPoint.ROUND_DECIDED, lambda: do(world)),
        pytest.raises(TableChangedError, match=f"no longer takes the files of a decided batch: .*{said}"),
    ):
        world.run(0, FIRST, "run-2")


def unpartition(world: IcebergWorld) -> None:
    change(world, lambda table: table.update_spec().remove_field("value").commit())


@pytest.mark.sampled("tables")
@pytest.mark.parametrize(("first", "then"), [(None, partition), (partition, unpartition)])
def test_files_are_added_as_they_are_parted_if_the_partitions_change_before_the_commit(
    world: IcebergWorld,
    spark: SparkSession,
    first: Callable[[IcebergWorld], None] | None,
    then: Callable[[IcebergWorld], None],
) -> None:
    """A batch that is not decided yet is written again."""
    rows = spark.createDataFrame([(value,) for value in FIRST], "value string")

    def begin() -> None:
        replace_table(world)
        if first is not None:
            first(world)

    begin()
    with at(TablesCrashPoint.DURABLE, lambda: then(world)), pytest.raises(NotPreparedError, match="another way now"):
        world.run_job(0, SparkJob(rows))
    begin()
    spec = world.loaded().spec().spec_id

    with at(CrashPoint.ROUND_DECIDED, lambda: then(world)):
        world.run_job(0, SparkJob(rows), "run-2")

    table = world.loaded()
    assert table.spec().spec_id != spec
    assert {entry.spec for entry in iceberg_entries(table.metadata_location)} == {spec}
    for value in FIRST:
        assert table.scan(row_filter=f"value = '{value}'").to_arrow().to_pylist() == [{"value": value}]


def rename_column_and_add_another(world: IcebergWorld) -> None:
    rename_column(world)
    change(world, lambda table: table.update_schema().add_column("value", StringType()).commit())


def drop_column(world: IcebergWorld) -> None:
    change(world, lambda table: table.update_schema().add_column("more", LongType()).delete_column("value").commit())


def drop_column_and_add_it_again(world: IcebergWorld) -> None:
    change(world, lambda table: table.update_schema().delete_column("value").commit())
    change(world, lambda table: table.update_schema().add_column("value", StringType()).commit())


@pytest.mark.sampled("tables")
@pytest.mark.parametrize(
    ("do", "said", "found"),
    [
        (rename_column, "no such column", {"other": list(FIRST)}),
        (rename_column_and_add_another, "another column of the same name", {"other": list(FIRST), "value": None}),
        (drop_column, "no such column", {"more": None}),
        (drop_column_and_add_it_again, "another column of the same name", {"value": None}),
    ],
)
def test_rows_stay_in_their_columns_if_these_change_before_the_commit(
    world: IcebergWorld, do: Callable[[IcebergWorld], None], said: str, found: dict[str, list[str] | None]
) -> None:
    """A batch that is not decided yet is written again; one that is decided is right by the ids in its files."""
    with at(TablesCrashPoint.DURABLE, lambda: do(world)), pytest.raises(NotPreparedError, match=said):
        world.run(0, FIRST)
    replace_table(world)

    with at(CrashPoint.ROUND_DECIDED, lambda: do(world)):
        world.run(0, FIRST, "run-2")

    rows = world.loaded().scan().to_arrow()
    expected: dict[str, list[Any]] = {name: values or [None] * len(FIRST) for name, values in found.items()}
    assert {name: sorted(rows[name].to_pylist(), key=str) for name in rows.column_names} == expected


@pytest.mark.sampled("tables")
def test_a_type_that_is_widened_before_the_commit_widens_the_values(world: IcebergWorld) -> None:
    world.schema = pa.schema({"id": pa.int32(), "price": pa.decimal128(5, 2)})
    replace_table(world)

    def widen() -> None:
        def update(table: Table) -> None:
            update = table.update_schema().update_column("id", field_type=LongType())
            update.update_column("price", field_type=DecimalType(20, 2)).commit()

        change(world, update)

    with at(CrashPoint.ROUND_DECIDED, widen):
        world.run_job(0, ArrowJob(pa.table({"id": [1], "price": [Decimal("1.25")]}, world.schema)))

    assert world.loaded().scan().to_arrow().to_pylist() == [{"id": 1, "price": Decimal("1.25")}]


@pytest.mark.sampled("tables")
@pytest.mark.parametrize("point", [TablesCrashPoint.DURABLE, CrashPoint.ROUND_DECIDED])
def test_others_may_add_a_column_of_a_type_that_spark_does_not_write(world: IcebergWorld, point: str) -> None:
    def add(table: Table) -> None:
        table.update_schema().add_column("more", UUIDType()).commit()

    with at(point, lambda: change(world, add)):
        world.run(0, FIRST)

    assert world.holds(FIRST)


@pytest.mark.sampled("tables")
def test_a_column_that_must_have_values_since_the_decision_is_refused_until_it_need_not(world: IcebergWorld) -> None:
    def require(is_required: bool) -> None:
        change(
            world,
            lambda table: (
                table.update_schema(allow_incompatible_changes=True)
                .update_column("value", required=is_required)
                .commit()
            ),
        )

    with at(CrashPoint.ROUND_DECIDED, lambda: require(True)), pytest.raises(TableChangedError, match="without a value"):
        world.run(0, FIRST)
    require(False)

    assert world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


@pytest.mark.sampled("tables")
def test_a_batch_that_an_older_oncelog_decided_is_committed_by_names(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have no field ids, so the commit gives the table a name mapping."""
    with monkeypatch.context() as patched:
        patched.setattr(WrittenColumn, "metadata", {})
        patched.setattr(iceberg_metrics, "check_ids", lambda *_: None)
        patched.setattr(ArrowJob, "has_ids", False)
        die(world, CrashPoint.ROUND_DECIDED)

    assert world.run(0, FIRST, "run-2").is_replay

    assert TableProperties.DEFAULT_NAME_MAPPING in world.loaded().properties
    assert sorted(world.loaded().scan().to_arrow()["value"].to_pylist()) == list(FIRST)


@pytest.mark.sampled("tables")
def test_rows_that_the_metadata_cannot_describe_are_refused_before_the_decision(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflow(*_: object, **__: object) -> DataFile:
        raise OverflowError("too large")

    before = set(world.folder.rglob("*.avro"))
    with monkeypatch.context() as patched:
        patched.setattr(DataFile, "from_args", overflow)
        with pytest.raises(InvalidRecordError, match=r"cannot describe the rows.*OverflowError: too large"):
            world.run(0, FIRST)
    assert set(world.folder.rglob("*.avro")) == before

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)
    assert world.left() == []


@pytest.mark.sampled("tables")
def test_files_that_are_gone_behind_the_decision_are_never_taken_for_none(world: IcebergWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDED)
    next(world.folder.rglob("part-0.parquet")).unlink()

    with pytest.raises(CorruptDataError, match=r"the files of a decided batch are not .* as they were written"):
        world.run(0, FIRST, "run-2")
    assert world.visible() == []


@pytest.mark.sampled("tables")
def test_a_catalog_that_is_away_is_told(world: IcebergWorld) -> None:
    world.catalog = {**world.catalog, "uri": f"sqlite:///{world.folder}/no/such/catalog.db"}

    with pytest.raises(TableUnavailableError, match=r"cannot be reached now.*unable to open database"):
        world.run(0, FIRST)
