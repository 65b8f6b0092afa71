"""What the sink refuses before it runs a job, or before the decision: each by name, and nothing is left of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lakes import ArrowJob, DeltaWorld, create_delta
from oncelog.errors import InvalidRecordError, UsageError
from oncelog.testing.target_contract import FIRST
from oncelog_tables import delta_features
from oncelog_tables.delta_tables import DeltaTables

pytestmark = pytest.mark.usefixtures("spark")  # it parses schemas, and finds files


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DeltaWorld]:
    found = DeltaWorld(tmp_path)
    yield found
    assert found.left() == []
    found.close()


class Unrun(ArrowJob):
    """A job that nobody may run."""

    def __init__(self, schema: str) -> None:
        found = StructType.fromDDL(schema)
        assert isinstance(found, StructType)
        self._schema = found

    @property
    def schema(self) -> StructType:
        return self._schema

    def run(self, *_: Any) -> int:
        raise AssertionError("the job runs")


@pytest.mark.parametrize(
    ("columns", "schema", "said"),
    [
        ("id int, value string", "id int, val string", "has no such column; .*column='val', table='/.*"),
        ("id int NOT NULL, value string", "value string", r"columns are missing .*missing=\['id'\]"),
        ("id int", "id int, ID int", r"two columns of the DataFrame are for the same column.*\['id', 'ID'\]"),
        ("id int", "id bigint", "cast it to int .*type='bigint'.*table_type='int'"),
        ("price decimal(9,2)", "price decimal(9,3)", r"cast it to decimal\(9,2\)"),
        ("at timestamp", "at date", "cast it to timestamp"),
        ("s struct<a int>", "s struct<b int>", "its structs have other fields than struct<a:int>"),
        ("s struct<a int>", "s struct<a string>", "cast it to int"),
        ("l array<int>", "l array<bigint>", "cast it to int"),
        ("m map<string, int>", "m map<string, date>", "cast it to int"),
        ("s struct<a int NOT NULL>", "s struct<a int>", "the field a of a struct may be null"),
    ],
)
def test_a_column_that_does_not_fit_is_named_before_a_job(
    world: DeltaWorld, columns: str, schema: str, said: str
) -> None:
    rewrite(world, "metaData", schemaString=StructType.fromDDL(columns).json())

    with pytest.raises(InvalidRecordError, match=said):
        world.run_job(0, Unrun(schema))


def rewrite(world: DeltaWorld, action: str, **changes: Any) -> None:
    """Change an action of the table's first commit, as another engine may have written it."""
    commit = world.table / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    next(found for found in actions if action in found)[action].update(changes)
    commit.write_text("\n".join(map(json.dumps, actions)))


def with_metadata(**metadata: str) -> dict[str, Any]:
    """A change of the schema: the metadata of its column."""
    field = {"name": "value", "type": "string", "nullable": True, "metadata": metadata}
    return {"schemaString": json.dumps({"type": "struct", "fields": [field]})}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"configuration": {"delta.columnMapping.mode": "name"}}, "other names in the files"),
        ({"configuration": {delta_features.FORGETS: "interval 7 days"}}, "forgets which batches it has"),
        ({"configuration": {"delta.constraints.positive": "value > 0"}}, "constraints=.*positive.*DROP CONSTRAINT"),
        (with_metadata(**{"delta.invariants": "{}"}), "column='value'.*invariant"),
        (with_metadata(**{"delta.generationExpression": "1"}), "column='value'.*generated"),
        (with_metadata(**{"delta.identity.start": "1"}), "column='value'.*identity"),
        (with_metadata(__CHAR_VARCHAR_TYPE_STRING="varchar(3)"), "column='value'.*varchar"),
    ],
)
def test_a_table_that_asks_for_more_than_files_is_refused_by_name(
    world: DeltaWorld, change: dict[str, Any], said: str
) -> None:
    rewrite(world, "metaData", **change)

    with pytest.raises(UsageError, match=f"cannot write into this Delta table .*{said}"):
        world.run_job(0, Unrun("value string"))


def test_a_column_with_a_default_must_be_written(world: DeltaWorld) -> None:
    fields = [
        {"name": "value", "type": "string", "nullable": True, "metadata": {}},
        {"name": "kind", "type": "string", "nullable": True, "metadata": {delta_features.DEFAULT: "'new'"}},
    ]
    rewrite(world, "metaData", schemaString=json.dumps({"type": "struct", "fields": fields}))

    with pytest.raises(InvalidRecordError, match=r"has a default that the sink does not fill in.*missing=\['kind'\]"):
        world.run_job(0, Unrun("value string"))


def test_a_partition_by_a_time_is_refused(tmp_path: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": pa.string()})
    create_delta(tmp_path / "by-time", schema, partition_by="at")

    with pytest.raises(UsageError, match="partitioned by a column of type timestamp; use a date or a text"):
        DeltaTables({}).open(str(tmp_path / "by-time"))


@pytest.mark.parametrize("feature", ["rowTracking", "inCommitTimestamp", "clustering", "nobodyKnows"])
def test_a_feature_that_the_sink_does_not_know_is_refused_by_name(world: DeltaWorld, feature: str) -> None:
    rewrite(world, "protocol", minReaderVersion=1, minWriterVersion=7, writerFeatures=["appendOnly", feature])

    with pytest.raises(UsageError, match=f"{feature}|does not know this table's protocol"):
        world.run_job(0, Unrun("value string"))


@pytest.mark.sampled
@pytest.mark.parametrize("feature", sorted(delta_features.TAKEN))
def test_delta_rs_commits_to_tables_with_each_feature_that_is_taken(world: DeltaWorld, feature: str) -> None:
    of_readers = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"}
    readers = {"minReaderVersion": 3, "readerFeatures": [feature]} if feature in of_readers else {}
    rewrite(world, "protocol", minWriterVersion=7, writerFeatures=[feature], **readers)

    world.run(0, FIRST)

    assert world.holds(FIRST)


def test_a_place_without_a_table_is_named(world: DeltaWorld, tmp_path: Path) -> None:
    world.table = tmp_path / "nothing"

    with pytest.raises(UsageError, match=f"there is no Delta table in this place.*{re.escape(str(world.table))}"):
        world.run(0, FIRST)
    world.table = tmp_path / "a table"
