"""Upserts into Delta tables, by delta-rs's merge: what a commit changes, and what a table must be like."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import oncelog_tables
from lake_queries import Query
from lakes import ArrowJob, DeltaWorld, create_delta, delta_files, delta_rows, left_folders
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, InvalidRecordError, NotPreparedError, RunSupersededError, UsageError
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.spark.kit.spark_files import SparkFiles
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.delta_tables import OpenDeltaTable
from oncelog_tables.errors import TableChangedError, TableUnavailableError

pytestmark = pytest.mark.usefixtures("spark")  # it reads the keys

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DeltaWorld]:
    found = DeltaWorld(tmp_path, SCHEMA, ("id",))
    yield found
    assert found.left() == []
    found.close()


def rows(**values: str) -> pa.Table:
    """An id, behind a letter, and its value."""
    ids = pa.array([int(name[1:]) for name in values], pa.int64())
    return pa.table({"id": ids, "value": list(values.values())})


def values_in(world: DeltaWorld) -> list[tuple[int, str]]:
    return sorted((row["id"], row["value"]) for row in world.rows())


def newest(world: DeltaWorld) -> dict[str, Any]:
    """The actions of the newest commit; of several of a kind one."""
    commit = max((world.table / "_delta_log").glob("*.json"))
    return {name: body for line in commit.read_text().splitlines() for name, body in json.loads(line).items()}


def test_a_merge_says_of_whom_it_is_and_leaves_other_files_alone(world: DeltaWorld) -> None:
    for at_id in (1, 5):
        write_deltalake(str(world.table), rows(**{f"_{at_id}": "old", f"_{at_id + 1}": "old"}), mode="append")
    before = set(delta_files(world.table))

    world.run_job(0, ArrowJob(rows(_5="new", _6="new", _7="new")))

    assert values_in(world) == [(1, "old"), (2, "old"), (5, "new"), (6, "new"), (7, "new")]
    assert len(before & set(delta_files(world.table))) == 1
    actions = newest(world)
    assert actions["commitInfo"]["userMetadata"] == "oncelog contract/query batch 0"
    assert not actions["commitInfo"].get("isBlindAppend")
    assert (actions["txn"]["appId"], actions["txn"]["version"]) == ("contract/query", 0)


def test_rows_that_others_add_while_the_batch_is_merged_are_looked_at_again(
    world: DeltaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come when the table has been read: the log refuses the commit, and the next look finds them."""
    world.run_job(0, ArrowJob(rows(_1="old")))
    merge, tables = DeltaTable.merge, [rows(_1="theirs", _9="theirs")]

    def after_another(*arguments: Any, **more: Any) -> Any:
        merger = merge(*arguments, **more)
        if tables:
            write_deltalake(str(world.table), tables.pop(), mode="append")
        return merger

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "merge", after_another)
        world.run_job(1, ArrowJob(rows(_1="ours", _2="ours")))

    assert values_in(world) == [(1, "ours"), (1, "ours"), (2, "ours"), (9, "theirs")]


def test_a_driver_whose_files_a_quicker_one_removed_finds_the_batch_in_the_table(
    world: DeltaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked, and read the footers; then its successor commits, and removes what it is about to merge."""
    world.run_job(0, ArrowJob(rows(_1="old")))
    commit = OpenDeltaTable.commit
    met: list[str] = []

    def after_another(*arguments: Any) -> Any:
        if not met:
            met.append("met")
            world.run_job(1, ArrowJob(rows(_1="new")), "run-2")
        return commit(*arguments)

    with monkeypatch.context() as patched, suppress(RunSupersededError):
        patched.setattr(OpenDeltaTable, "commit", after_another)
        world.run_job(1, ArrowJob(rows(_1="new")))

    assert values_in(world) == [(1, "new")]


def test_a_merge_that_comes_behind_those_of_its_successor_is_refused(
    world: DeltaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the table, and all of its rows are still there: only the log can say that it comes too late."""
    write_deltalake(str(world.table), rows(_9="others"), mode="append")
    merge = DeltaTable.merge
    met: list[str] = []

    def after_another(*arguments: Any, **more: Any) -> Any:
        merger = merge(*arguments, **more)
        if not met:
            met.append("met")
            world.run_job(0, ArrowJob(rows(_1="first")), "run-2")
            world.run_job(1, ArrowJob(rows(_1="second")), "run-2")
        return merger

    with monkeypatch.context() as patched, suppress(RunSupersededError):
        patched.setattr(SparkFiles, "remove", lambda *_: None)
        patched.setattr(DeltaTable, "merge", after_another)
        world.run_job(0, ArrowJob(rows(_1="first")))

    assert values_in(world) == [(1, "second"), (9, "others")]
    shutil.rmtree(world.table / "oncelog")


def test_a_commit_whose_answer_is_lost_is_made_once(world: DeltaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = OpenDeltaTable.commit
    world.run_job(0, ArrowJob(rows(_1="old")))

    def lose_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise TableUnavailableError("the answer is lost")

    with monkeypatch.context() as patched:
        patched.setattr(OpenDeltaTable, "commit", lose_answer)
        world.run_job(1, ArrowJob(rows(_1="new")))  # the table says that it happened

    assert values_in(world) == [(1, "new")]
    assert DeltaTable(str(world.table)).version() == 2


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_files_that_are_gone_behind_the_decision_are_told(tmp_path: Path, damage: str) -> None:
    world = DeltaWorld(tmp_path, SCHEMA, ("id",))
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run_job(0, ArrowJob(rows(_1="a", _2="b")))
    file = next(world.table.glob("oncelog/*/part-0.parquet"))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(CorruptDataError, match=r"the files of a decided batch are not .* as they were written"):
        world.run_job(0, ArrowJob(rows(_1="a", _2="b")), "run-2")
    assert world.rows() == []
    world.close()


def set_property(world: DeltaWorld, value: str) -> None:
    DeltaTable(str(world.table)).alter.set_table_properties({"delta.appendOnly": value})


def test_a_table_to_which_rows_are_only_added_is_refused(world: DeltaWorld) -> None:
    set_property(world, "true")
    with pytest.raises(UsageError, match=r"nobody may, by its own word.*property='delta.appendOnly'"):
        world.run_job(0, ArrowJob(rows(_1="a")))
    set_property(world, "false")
    with at(TablesCrashPoint.DURABLE, lambda: set_property(world, "true")), pytest.raises(NotPreparedError):
        world.run_job(0, ArrowJob(rows(_1="a")), "run-2")
    set_property(world, "false")
    with (
        at(CrashPoint.ROUND_DECIDED, lambda: set_property(world, "true")),
        pytest.raises(TableChangedError, match="nobody may"),
    ):
        world.run_job(0, ArrowJob(rows(_1="a")), "run-3")
    set_property(world, "false")

    assert world.run_job(0, ArrowJob(rows(_1="a")), "run-4").is_replay
    assert values_in(world) == [(1, "a")]


def test_a_partition_whose_name_delta_rs_does_not_write_is_refused(tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, pa.schema({"id": pa.int64(), "a\nb": pa.string()}), ("id",), partition_by=["a\nb"])

    with pytest.raises(UsageError, match=r"delta-rs does not write into names of folders.*column='a\\nb'"):
        world.run_job(0, ArrowJob(pa.table({"id": [1], "a\nb": ["x"]})))
    world.close()


# By queries of Spark -------------------------------------------------------------------------------------------------

ROW = """
SELECT 'it''s é%/' text, true flag, 1Y tiny, 2S small, 3 whole, 4L long, 1.2345bd price, date'0001-01-01' day,
 timestamp'1969-12-31 23:59:59.999999Z' at, timestamp_ntz'2026-01-01 00:00:00.000001' local,
 named_struct('x', 1, 'names', array('a', null)) inner, map('k', 1) by_name, x'00ff' bytes, cast('NaN' AS double) double
"""
KEYS = ["text", "flag", "tiny", "small", "whole", "long", "price", "day", "at", "local"]


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    close_ledgers()


def upsert(query: Query, key_columns: str, df: Any = None) -> None:
    options = {"path": str(query.folder / "table"), "znodes": str(query.folder / "ledger")}
    query.run_into(oncelog_tables.delta(mode="upsert", keyColumns=key_columns, **options), df)


@pytest.mark.sampled("upserts into Delta")
@pytest.mark.parametrize("partitioned_by", [[], ["text", "day", "flag", "price"]])
def test_keys_of_all_types_are_found_again(query: Query, partitioned_by: list[str]) -> None:
    rows = query.spark.sql(f"SELECT * FROM ({ROW})")
    feed = {"delta.enableChangeDataFeed": "true"}
    schema = query.spark.createDataFrame([], rows.schema).toArrow().schema
    create_delta(query.folder / "table", schema, partition_by=partitioned_by or None, configuration=feed)
    for batch in (1, 2):
        query.add({"batch": batch})
    joined = query.source("batch int").join(rows).drop("batch")

    upsert(query, ",".join(KEYS), joined)

    found = DeltaTable(str(query.folder / "table")).to_pyarrow_table().to_pylist()
    assert len(found) == 1
    assert {name: found[0][name] for name in KEYS} == {name: rows.toArrow().to_pylist()[0][name] for name in KEYS}
    assert left_folders(query.folder / "table") == []


def test_an_empty_text_that_the_table_keeps_as_no_value_is_refused(query: Query) -> None:
    create_delta(query.folder / "table", pa.schema({"id": pa.int32(), "value": pa.string()}), partition_by=["value"])
    query.add({"id": 1, "value": "a"})
    upsert(query, "id,value")
    query.add({"id": 1, "value": ""})

    with pytest.raises(InvalidRecordError, match=r"an empty text in a key column by which .*columns=\['value'\]"):
        upsert(query, "id,value")
    assert [row["value"] for row in delta_rows(query.folder / "table")] == ["a"]

    query.checkpoint = query.folder / "another"
    upsert(query, "id")
    assert [row["id"] for row in delta_rows(query.folder / "table")] == [1]
