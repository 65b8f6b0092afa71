"""Upserts into Iceberg tables, by equality deletes: what is in the metadata, and what a table must be like."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.transforms import DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType
from pyspark.sql import SparkSession

from lake_queries import TABLE, IcebergQuery
from lakes import (
    EQUALITY_DELETES,
    ArrowJob,
    IcebergWorld,
    create_iceberg,
    iceberg_entries,
    iceberg_files,
    iceberg_rows,
    local,
)
from oncelog.crash_points import CrashPoint
from oncelog.errors import NotPreparedError, RunSupersededError, UsageError
from oncelog.testing.target_contract import at
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.errors import TableChangedError
from oncelog_tables.iceberg_deletes import ReplacingRows

pytestmark = pytest.mark.usefixtures("spark")  # it reads and writes the keys

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IcebergWorld]:
    found = IcebergWorld(tmp_path, SCHEMA, ("id",))
    yield found
    found.close()


def job(**values: str) -> ArrowJob:
    """Rows: an id, behind a letter, and its value."""
    ids = pa.array([int(name[1:]) for name in values], pa.int64())
    return ArrowJob(pa.table({"id": ids, "value": list(values.values())}))


def change(world: IcebergWorld, action: Callable[[Table], object]) -> None:
    """What somebody else does to the table."""
    with closing(load_catalog("lake", **world.catalog)) as catalog:
        action(catalog.load_table(world.table))


def values_in(world: IcebergWorld) -> list[tuple[int, str]]:
    return sorted((row["id"], row["value"]) for row in world.rows())


def test_the_rows_and_the_deletes_of_a_batch_are_in_one_snapshot_with_one_sequence_number(world: IcebergWorld) -> None:
    world.run_job(0, job(_1="a", _2="b"))
    world.run_job(1, job(_2="B", _3="c", _4="d"))

    table = world.loaded()
    files = [entry for entry in iceberg_entries(table.metadata_location) if entry.number == 2]
    assert sorted({entry.file["content"] for entry in files}) == [0, EQUALITY_DELETES]
    deletes = [entry.file for entry in files if entry.file["content"] == EQUALITY_DELETES]
    assert {tuple(file["equality_ids"]) for file in deletes} == {(1,)}
    assert sum(file["record_count"] for file in deletes) == 3
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.sequence_number == 2
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.OVERWRITE
    said = ("added-records", "added-equality-deletes", "total-equality-deletes")
    assert [snapshot.summary[name] for name in said] == ["3", "3", "5"]
    assert len(table.metadata.snapshots) == 2
    assert type_of_ids(table) == ["null", "int"]


def type_of_ids(table: Table) -> list[str]:
    """Of the columns that a delete names, in the schema of the manifests: Java reads no other than int."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    deletes = next(one for one in snapshot.manifests(table.io) if one.content is ManifestContent.DELETES)
    with local(deletes.manifest_path).open("rb") as file:
        found: Any = fastavro.reader(file).writer_schema
    for name in ("data_file", "equality_ids"):
        found = next(field["type"] for field in found["fields"] if field["name"] == name)
    none, ids = found
    return [none, ids["items"]]


def test_pyiceberg_by_itself_refuses_to_read_what_it_would_read_wrong(world: IcebergWorld) -> None:
    world.run_job(0, job(_1="a"))

    with pytest.raises(ValueError, match="does not yet support equality deletes"):
        world.loaded().scan().to_arrow()


def test_a_pyiceberg_that_would_leave_the_deletes_out_commits_nothing(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a newer one no longer called the method in which they are added."""
    world.run_job(0, job(_1="a"))

    def leave_out(patched: pytest.MonkeyPatch) -> None:
        patched.setattr(ReplacingRows, "_process_manifests", _FastAppendFiles._process_manifests)

    said = "pyiceberg leaves the deletes out of a snapshot"
    with monkeypatch.context() as patched:
        leave_out(patched)
        with pytest.raises(UsageError, match=said):
            world.run_job(1, job(_1="b"))
    with (
        monkeypatch.context() as patched,
        at(CrashPoint.ROUND_DECIDED, lambda: leave_out(patched)),
        pytest.raises(TableChangedError, match=said),
    ):
        world.run_job(1, job(_1="b"), "run-2")
    assert values_in(world) == [(1, "a")]

    assert world.run_job(1, job(_1="b"), "run-3").is_replay
    assert values_in(world) == [(1, "b")]


def test_a_commit_that_meets_those_of_its_successor_in_the_catalog_is_refused(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made once more upon the newer snapshot, as pyiceberg would, it would take the newest row out."""
    hand_in = SqlCatalog.commit_table
    met: list[str] = []

    def after_another(catalog: SqlCatalog, *arguments: Any) -> object:
        if not met:
            met.append("met")
            world.run_job(0, job(_1="first"), "run-2")
            world.run_job(1, job(_1="second"), "run-2")
        return hand_in(catalog, *arguments)

    with monkeypatch.context() as patched, suppress(RunSupersededError):
        patched.setattr(SqlCatalog, "commit_table", after_another)
        world.run_job(0, job(_1="first"))

    assert values_in(world) == [(1, "second")]
    assert len(world.loaded().metadata.snapshots) == 2


def test_rows_that_others_add_before_the_commit_are_replaced_and_those_behind_it_are_not(world: IcebergWorld) -> None:
    def append(value: str) -> None:
        rows = pa.table({"id": pa.array([1], pa.int64()), "value": [value]})
        change(world, lambda table: table.append(rows))

    with at(TablesCrashPoint.COMMIT, lambda: append("theirs")):
        world.run_job(0, job(_1="ours"))
    assert values_in(world) == [(1, "ours")]

    append("later")
    assert values_in(world) == [(1, "later"), (1, "ours")]


def drop_key_and_add_it_again(table: Table) -> None:
    table.update_schema().delete_column("id").commit()
    table.update_schema().add_column("id", LongType()).commit()


def rename_key(table: Table) -> None:
    table.update_schema().rename_column("id", "number").commit()


@pytest.mark.sampled("upserts into Iceberg")
@pytest.mark.parametrize(
    ("do", "said"),
    [
        (rename_key, "the table has no such column"),
        (lambda table: table.update_schema().add_column("id2", IntegerType()).commit(), None),
        (drop_key_and_add_it_again, "has other columns as keys"),
        (lambda table: table.update_spec().add_identity("value").commit(), r"keyColumns lack.*missing=\['value'\]"),
    ],
)
def test_a_table_whose_keys_changed_is_named_before_the_decision_and_behind_it(
    world: IcebergWorld, do: Callable[[Table], None], said: str | None
) -> None:
    if said is None:
        with at(CrashPoint.ROUND_DECIDED, lambda: change(world, do)):
            world.run_job(0, job(_1="a"))
        assert values_in(world) == [(1, "a")]
        return
    with at(TablesCrashPoint.DURABLE, lambda: change(world, do)), pytest.raises(NotPreparedError, match=said):
        world.run_job(0, job(_1="a"))
    with closing(load_catalog("lake", **world.catalog)) as catalog:
        catalog.drop_table(world.table)
    create_iceberg(world.catalog, world.table, SCHEMA)
    with at(CrashPoint.ROUND_DECIDED, lambda: change(world, do)), pytest.raises(TableChangedError, match=said):
        world.run_job(0, job(_1="a"), "run-2")


# Tables with partitions, by queries ----------------------------------------------------------------------------------

PARTED = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "value", StringType()),
)


class UpsertQuery(IcebergQuery):
    """A query that replaces rows."""

    schema = "id int, text string, at timestamp, value string"

    def upsert(self, key_columns: str) -> None:
        """Write what there is."""
        self.run_into(self.sink(mode="upsert", keyColumns=key_columns))


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[UpsertQuery]:
    found = UpsertQuery(spark, tmp_path)
    yield found
    found.close()


@pytest.mark.sampled("upserts into Iceberg")
def test_a_row_is_looked_for_in_the_partition_of_its_key(query: UpsertQuery) -> None:
    parted = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "id"),
        PartitionField(2, 1001, TruncateTransform(2), "text_start"),
        PartitionField(3, 1002, DayTransform(), "day"),
    )
    create_iceberg(query.catalog, TABLE, PARTED, partition_spec=parted)
    first = {"id": 1, "text": "é%/ab", "at": "1969-12-31T23:59:59Z", "value": "old"}
    second = {"id": 1, "text": "", "at": "2026-01-01T00:00:00Z", "value": "old"}
    query.add(first, second, {**first, "text": "é%"})
    query.upsert("At, TEXT, id")  # at a time, since Spark takes files of one millisecond in any order
    query.add({**first, "value": "new"}, {**second, "value": "new"})
    query.upsert("At, TEXT, id")

    rows = iceberg_rows(query.metadata)

    found = sorted((row["text"], row["value"]) for row in rows)
    assert found == [("", "new"), ("é%", "old"), ("é%/ab", "new")]
    deletes = iceberg_files(query.metadata, EQUALITY_DELETES)
    assert {tuple(file["equality_ids"]) for file in deletes} == {(3, 2, 1)}
    parts = {json.dumps(file["partition"], default=str) for file in deletes}
    assert parts == {json.dumps(file["partition"], default=str) for file in iceberg_files(query.metadata)}


def test_keys_without_the_columns_of_partitions_are_refused(query: UpsertQuery) -> None:
    parted = PartitionSpec(PartitionField(3, 1002, DayTransform(), "day"))
    create_iceberg(query.catalog, TABLE, PARTED, partition_spec=parted)
    query.add({"id": 1})

    with pytest.raises(UsageError, match=r"keyColumns lack columns by which .*keyColumns=\['id'\], missing=\['at'\]"):
        query.upsert("id")


def test_the_first_version_of_the_format_is_refused(query: UpsertQuery) -> None:
    create_iceberg(query.catalog, TABLE, PARTED, properties={"format-version": "1"})
    query.add({"id": 1})

    with pytest.raises(UsageError, match="version 1 of the format has no deletes; ALTER TABLE"):
        query.upsert("id")


@pytest.mark.sampled("upserts into Iceberg")
def test_files_from_before_the_partitions_were_changed_are_refused_and_other_changes_are_not(
    query: UpsertQuery,
) -> None:
    create_iceberg(query.catalog, TABLE, PARTED)
    query.add({"id": 1, "value": "old"})
    query.upsert("id")
    with closing(load_catalog("lake", **query.catalog)) as catalog:
        catalog.load_table(TABLE).update_spec().add_identity("id").commit()
    query.add({"id": 1, "value": "new"})
    with pytest.raises(UsageError, match=r"files from before its partitions were changed.*rewrite_data_files"):
        query.upsert("id")

    with closing(load_catalog("lake", **query.catalog)) as catalog:
        catalog.load_table(TABLE).update_spec().remove_field("id").commit()
    query.upsert("id")

    assert [(row["id"], row["value"]) for row in iceberg_rows(query.metadata)] == [(1, "new")]
