"""Which files of a table a merge may rewrite: a merge must not change rows of others."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakes import ArrowJob, DeltaWorld
from oncelog.crash_points import CrashPoint
from oncelog.errors import NotPreparedError, UsageError
from oncelog.testing.target_contract import at
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.errors import TableChangedError

pytestmark = pytest.mark.usefixtures("spark")  # it reads the keys

UTC = dt.UTC
FOREVER = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", MOMENT),
        pa.field("day", pa.date32()),
        pa.field("seen", pa.list_(pa.struct([pa.field("on", MOMENT)]))),
    ]
)
VERSION, LEGACY, LEGACY_INT96 = (
    "org.apache.spark.version",
    "org.apache.spark.legacyDateTime",
    "org.apache.spark.legacyINT96",
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DeltaWorld]:
    found = DeltaWorld(tmp_path, SCHEMA, ("id",), configuration={"delta.enableChangeDataFeed": "true"})
    yield found
    assert found.left() == []
    found.close()


def row(**changed: Any) -> dict[str, Any]:
    """A row that every reader takes as it is, but for these values."""
    now = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    return {"id": 1, "at": now, "day": dt.date(2026, 1, 2), "seen": [{"on": now}]} | changed


def add_foreign_file(
    world: DeltaWorld, *rows: dict[str, Any], name: str = "theirs.parquet", is_int96: bool = False, **marks: str
) -> None:
    """Add a file as another writer makes it: with timestamps in INT96, as Spark does by default, and Spark's marks."""
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    how = {"use_deprecated_int96_timestamps": is_int96, "store_schema": False}
    with pq.ParquetWriter(world.table / name, table.schema, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(marks)
    ids = [one["id"] for one in rows]
    stats = {"numRecords": len(rows), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
    add = {"path": name, "partitionValues": {}, "modificationTime": 0, "dataChange": True, "stats": json.dumps(stats)}
    add["size"] = (world.table / name).stat().st_size
    commit(world.table, {"add": add})


def commit(table: Path, *actions: dict[str, Any]) -> None:
    number = DeltaTable(str(table)).version() + 1
    (table / "_delta_log" / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))


def upsert(world: DeltaWorld, batch_id: int, *rows: dict[str, Any], run: str = "run-1") -> Any:
    return world.run_job(batch_id, ArrowJob(pa.Table.from_pylist(list(rows), SCHEMA)), run)


def found(world: DeltaWorld) -> list[dict[str, Any]]:
    """The rows as pyarrow reads them, in microseconds."""
    dataset = [pq.ParquetFile(world.table / path, coerce_int96_timestamp_unit="us").read() for path in paths(world)]
    return sorted((one for table in dataset for one in table.cast(SCHEMA).to_pylist()), key=lambda one: int(one["id"]))


def paths(world: DeltaWorld) -> list[str]:
    table = pa.table(DeltaTable(str(world.table)).get_add_actions(flatten=True))
    return [str(path) for path in table.column("path").to_pylist()]


INT96 = r"INT96, which delta-rs would change; rewrite the table's files once: in Spark, SET .*TIMESTAMP_MICROS"
OLD = "days of the old calendar, which delta-rs would move; rewrite the table's files once"


@pytest.mark.parametrize(
    ("theirs", "marks", "is_int96", "column", "said"),
    [
        ({"at": FOREVER}, {}, True, "at", INT96),
        ({"at": dt.datetime(1677, 9, 21, tzinfo=UTC)}, {}, True, "at", INT96),
        ({"seen": [{"on": FOREVER}]}, {}, True, "seen.list.element.on", INT96),
        ({"day": dt.date(1500, 1, 1)}, {LEGACY: "", VERSION: "4.0.5"}, False, "day", OLD),
        ({"day": dt.date(1582, 10, 14)}, {VERSION: "2.4.8"}, False, "day", OLD),
        ({"at": dt.datetime(1850, 1, 1, tzinfo=UTC)}, {VERSION: "2.4.8"}, False, "at", OLD),
        ({"at": dt.datetime(1850, 1, 1, tzinfo=UTC)}, {VERSION: "3.0.3"}, True, "at", OLD),
        ({"at": dt.datetime(1850, 1, 1, tzinfo=UTC)}, {LEGACY_INT96: "", VERSION: "4.3.0"}, True, "at", OLD),
        ({"day": dt.date(1500, 1, 1)}, {"org.apache.spark.sql.parquet.row.metadata": "{}"}, False, "day", OLD),
    ],
)
def test_a_file_whose_rows_a_merge_would_change_is_refused_before_the_decision(
    world: DeltaWorld, theirs: dict[str, Any], marks: dict[str, str], is_int96: bool, column: str, said: str
) -> None:
    add_foreign_file(world, row(id=1), row(id=2, **theirs), is_int96=is_int96, **marks)
    before = found(world)

    with (
        at(TablesCrashPoint.DURABLE, lambda: None) as passed,
        pytest.raises(UsageError, match=rf"column='{column}', file='theirs\.parquet', reason=.*{said}"),
    ):
        upsert(world, 0, row(id=1, day=dt.date(2026, 2, 2)))
    assert TablesCrashPoint.DURABLE not in passed
    assert found(world) == before

    upsert(world, 0, row(id=3), run="run-2")  # rows of its own files only
    assert [one["id"] for one in found(world)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("theirs", "marks", "is_int96"),
    [
        ({"at": dt.datetime(2262, 4, 11, tzinfo=UTC), "seen": None}, {VERSION: "4.3.0"}, True),
        ({"at": dt.datetime(1677, 9, 22, tzinfo=UTC)}, {VERSION: "3.5.0"}, True),
        (
            {"at": FOREVER, "day": dt.date(1500, 1, 1), "seen": [{"on": FOREVER}, {"on": None}]},
            {VERSION: "4.3.0"},
            False,
        ),
        ({"at": dt.datetime(1900, 1, 1, tzinfo=UTC), "day": dt.date(1582, 10, 15)}, {VERSION: "2.4.8"}, False),
        ({"at": None, "day": None}, {LEGACY: "", LEGACY_INT96: "", VERSION: "2.4.8"}, True),
        ({"at": FOREVER, "day": dt.date(1, 1, 1)}, {}, False),
    ],
)
def test_rows_of_others_in_a_rewritten_file_stay_as_they_are(
    world: DeltaWorld, theirs: dict[str, Any], marks: dict[str, str], is_int96: bool
) -> None:
    add_foreign_file(world, row(id=1), row(id=2, **theirs), is_int96=is_int96, **marks)

    upsert(world, 0, row(id=1, day=dt.date(2026, 2, 2)))

    assert "theirs.parquet" not in paths(world)
    assert found(world) == [row(id=1, day=dt.date(2026, 2, 2)), row(id=2, **theirs)]


def test_a_file_that_others_add_after_the_decision_is_not_rewritten_either(world: DeltaWorld) -> None:
    def add() -> None:
        add_foreign_file(world, row(id=1), row(id=2, at=FOREVER), is_int96=True)

    with at(TablesCrashPoint.DURABLE, add), pytest.raises(NotPreparedError, match=r"the table changed while.*INT96"):
        upsert(world, 0, row(id=1))
    commit(world.table, remove_action("theirs.parquet"))
    with (
        at(CrashPoint.ROUND_DECIDED, add),
        pytest.raises(TableChangedError, match=r"decided batch.*restart the query.*INT96"),
    ):
        upsert(world, 0, row(id=1), run="run-2")
    assert [one["at"] for one in found(world)] == [row()["at"], FOREVER]
    commit(world.table, remove_action("theirs.parquet"))

    assert upsert(world, 0, row(id=1), run="run-3").is_replay
    assert found(world) == [row(id=1)]


def remove_action(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0}}


INNER, WIDER = (
    pa.struct([pa.field("a", pa.int32())]),
    pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
)


@pytest.mark.parametrize(
    ("old", "new", "old_value", "new_value", "is_taken"),
    [
        (
            pa.map_(pa.string(), INNER),
            pa.map_(pa.string(), WIDER),
            [("k", {"a": 1})],
            [("k", {"a": 2, "b": "x"})],
            False,
        ),
        (
            pa.list_(pa.map_(pa.string(), pa.list_(INNER))),
            pa.list_(pa.map_(pa.string(), pa.list_(WIDER))),
            [[("k", [{"a": 1}])]],
            [[("k", [{"a": 2, "b": "x"}])]],
            False,
        ),
        (pa.list_(INNER), pa.list_(WIDER), [{"a": 1}], [{"a": 2, "b": "x"}], True),
        (INNER, WIDER, {"a": 1}, {"a": 2, "b": "x"}, True),
    ],
)
def test_a_table_whose_structs_got_a_field_is_merged_or_refused_before_the_decision(
    tmp_path: Path, old: pa.DataType, new: pa.DataType, old_value: Any, new_value: Any, is_taken: bool
) -> None:
    schema = pa.schema({"id": pa.int64(), "c": old})
    world = DeltaWorld(tmp_path, schema, ("id",))
    write_deltalake(str(world.table), pa.table({"id": [1, 2], "c": pa.array([old_value] * 2, old)}), mode="append")
    wider = pa.schema({"id": pa.int64(), "c": new})
    DeltaTable.create(str(tmp_path / "wider"), wider)
    metadata = json.loads(DeltaTable(str(tmp_path / "wider")).schema().to_json())
    (first, *_) = sorted((world.table / "_delta_log").glob("*.json"))
    (body,) = [json.loads(line)["metaData"] for line in first.read_text().splitlines() if "metaData" in line]
    commit(world.table, {"metaData": body | {"schemaString": json.dumps(metadata)}})
    job = ArrowJob(pa.table({"id": [1], "c": pa.array([new_value], new)}))

    if is_taken:
        world.run_job(0, job)
    else:
        with pytest.raises(UsageError, match=r"column='c', .*structs within its maps have other fields"):
            world.run_job(0, job)
    read = DeltaTable(str(world.table)).to_pyarrow_table().to_pylist() if is_taken else world.rows()
    assert {one["id"]: one["c"] for one in read}[1] == (new_value if is_taken else old_value)
    world.close()


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_shallow_clone_is_refused_before_the_decision(world: DeltaWorld, tmp_path: Path, scheme: str) -> None:
    add_foreign_file(world, row(id=1), row(id=2))
    (tmp_path / "elsewhere.parquet").write_bytes((world.table / "theirs.parquet").read_bytes())
    shared = {"path": f"{scheme}{tmp_path}/elsewhere.parquet", "partitionValues": {}, "modificationTime": 0}
    size = (tmp_path / "elsewhere.parquet").stat().st_size
    commit(world.table, remove_action("theirs.parquet"), {"add": {**shared, "size": size, "dataChange": True}})

    with pytest.raises(UsageError, match="shallow clone; make a deep clone"):
        upsert(world, 0, row(id=1))


PRICED = pa.schema({"id": pa.int64(), "price": pa.decimal128(9, 2), "value": pa.string()})


def test_negative_decimals_of_partitions_are_refused_before_the_decision(tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, PRICED, ("id",), partition_by=["price"])

    def prices(**by_id: str | None) -> pa.Table:
        ids, values = (
            [int(name[1:]) for name in by_id],
            [None if one is None else Decimal(one) for one in by_id.values()],
        )
        return pa.table({"id": ids, "price": values, "value": ["x"] * len(ids)}, PRICED)

    write_deltalake(str(world.table), prices(_2="7.00"), mode="append")
    theirs = world.table / "price=-0.05" / "theirs.parquet"
    theirs.parent.mkdir()
    pq.write_table(prices(_1=None).drop("price"), theirs)
    add = {"path": "price=-0.05/theirs.parquet", "partitionValues": {"price": "-0.05"}, "modificationTime": 0}
    stats = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}})
    commit(world.table, {"add": {**add, "size": theirs.stat().st_size, "dataChange": True, "stats": stats}})
    for batch in (prices(_3="-1.23"), prices(_3="1.23", _4="-0.01", _5=None)):
        with pytest.raises(UsageError, match=r"negative decimal.*column='price'|column='price'.*negative decimal"):
            world.run_job(0, ArrowJob(batch))
    with pytest.raises(UsageError, match=r"column='price', file='price=-0\.05.*negative decimal"):
        world.run_job(0, ArrowJob(prices(_1="0.00")))

    world.run_job(0, ArrowJob(prices(_2="0.00", _3=None)), "run-2")
    assert sorted((one["id"], one["price"]) for one in world.rows()) == [(1, "-0.05"), (2, "0.00"), (3, None)]
    world.close()


def test_partitions_that_delta_rs_takes_for_no_value_are_not_rewritten(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "kind": pa.string(), "value": pa.string()})
    world = DeltaWorld(tmp_path, schema, ("id",), partition_by=["kind"])
    hive = "__HIVE_DEFAULT_PARTITION__"
    theirs = pa.table({"id": [1, 2], "kind": [hive, hive], "value": ["a", "b"]}, schema)
    write_deltalake(str(world.table), theirs, mode="append")

    with pytest.raises(UsageError, match=r"column='kind'.*falls together with no value"):
        world.run_job(0, ArrowJob(pa.table({"id": [1], "kind": [None], "value": ["c"]}, schema)))
    world.run_job(0, ArrowJob(pa.table({"id": [3], "kind": [None], "value": ["c"]}, schema)), "run-2")

    assert sorted((row["id"], row["kind"]) for row in world.rows()) == [(1, hive), (2, hive), (3, None)]
    world.close()
