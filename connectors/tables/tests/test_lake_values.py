"""Values of rows at the edge of what the formats hold: refused before the decision, or read back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import NestedField, StringType
from pyspark.sql import DataFrame, SparkSession

from lakes import DeltaWorld, IcebergWorld
from oncelog.errors import FileWriteError, InvalidRecordError
from oncelog.testing.target_contract import at
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.jobs import SparkJob

WORLDS = {"delta": DeltaWorld, "iceberg": IcebergWorld}
World = DeltaWorld | IcebergWorld

ENTRY = pa.struct([pa.field("note", pa.string()), pa.field("day", pa.date32())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("entries", pa.map_(pa.string(), ENTRY)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
    ]
)
SOUND = {
    "id": "CAST(1 AS BIGINT)",
    "text": "'a'",
    "entries": "map('k', struct('n' AS note, DATE'2026-01-01' AS day))",
    "at": "TIMESTAMP'2026-01-01 00:00:00Z'",
    "local": "TIMESTAMP_NTZ'2026-01-01 00:00:00'",
}
BAD_TEXT = "CAST(X'c328' AS STRING)"


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(spark: SparkSession, **changed: str) -> DataFrame:
    """A row of sound values, but for these."""
    return spark.sql(f"SELECT {', '.join(f'{value} AS {name}' for name, value in (SOUND | changed).items())}")


@pytest.fixture
def world(tmp_path: Path, kind: str) -> Iterator[World]:
    found: Any = WORLDS[kind](tmp_path, SCHEMA)
    yield found
    assert found.left() == []
    found.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"text": BAD_TEXT}, r"not valid UTF-8.*column='text', value=0xc328"),
        (
            {"entries": f"map({BAD_TEXT}, struct('n' AS note, DATE'2026-01-01' AS day))"},
            r"not valid UTF-8.*column='entries\.key'",
        ),
        (
            {"entries": f"map('k', struct({BAD_TEXT} AS note, DATE'2026-01-01' AS day))"},
            r"UTF-8.*column='entries\.value\.note'",
        ),
        ({"entries": "map('k', struct('n' AS note, date_add(DATE'9999-12-31', 1) AS day))"}, r"column='entries\.value"),
        ({"at": "timestamp_micros(253402300800000000)"}, r"years 1 to 9999.*column='at'"),
        ({"local": "TIMESTAMP_NTZ'-0044-03-15 12:00:00'"}, r"years 1 to 9999.*column='local'"),
        ({"id": "CAST(NULL AS BIGINT)"}, r"a row has no value .*column='id'"),
    ],
)
def test_a_value_that_the_format_does_not_hold_is_refused_before_the_decision(
    spark: SparkSession, world: World, changed: dict[str, str], said: str
) -> None:
    with (
        at(TablesCrashPoint.WRITTEN, lambda: None) as passed,
        pytest.raises(InvalidRecordError, match=said),
    ):
        world.run_job(0, SparkJob(rows(spark, **changed)))
    assert TablesCrashPoint.WRITTEN not in passed
    assert (world.rows(), world.left()) == ([], [])

    world.run_job(0, SparkJob(rows(spark)), "run-2")
    assert [row["id"] for row in world.rows()] == [1]


@pytest.mark.parametrize("kind_of_column", ["string", "binary"])
def test_long_values_are_taken_into_a_column_that_wants_one(
    spark: SparkSession, tmp_path: Path, kind: str, kind_of_column: str
) -> None:
    """Parquet leaves out statistics of such values: that they are absent means nothing."""
    arrow = {"string": pa.string(), "binary": pa.binary()}[kind_of_column]
    world: Any = WORLDS[kind](tmp_path, pa.schema([pa.field("c", arrow, nullable=False)]))

    long, or_none = (f"CAST({c} AS {kind_of_column}) AS c" for c in ("repeat('x', 3000 + id)", "if(id = 0, NULL, 'y')"))

    world.run_job(0, SparkJob(spark.range(2).selectExpr(long)))
    with pytest.raises(InvalidRecordError, match=r"a row has no value .*column='c'"):
        world.run_job(1, SparkJob(spark.range(2).selectExpr(or_none)))

    assert sorted(len(row["c"]) for row in world.rows()) == [3000, 3001]
    world.close()


def test_rows_that_the_driver_does_not_see_are_not_taken_for_none(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    """As if tasks on other hosts had written to their own disks."""

    class Elsewhere(SparkJob):
        def run(self, planned: Any, folder: str, partitioned_by: Any) -> int:
            return super().run(planned, f"file://{tmp_path}/disk-of-another-host", partitioned_by)

    with pytest.raises(FileWriteError, match=r"tasks on other hosts.*written=1, found=0"):
        world.run_job(0, Elsewhere(rows(spark)))
    assert world.rows() == []


@pytest.mark.parametrize("is_upsert", [False, True])
def test_a_batch_is_refused_if_the_driver_sees_the_files_of_some_hosts_only(
    spark: SparkSession, kind: str, tmp_path: Path, is_upsert: bool
) -> None:
    world: Any = WORLDS[kind](tmp_path, pa.schema([pa.field("id", pa.int64())]), ["id"] if is_upsert else ())

    class OnTwoHosts(SparkJob):
        def run(self, planned: Any, folder: str, partitioned_by: Any) -> int:
            written = super().run(planned, folder, partitioned_by)
            max(Path(folder.removeprefix("file:")).rglob("*.parquet")).unlink()
            return written

    with pytest.raises(FileWriteError, match=r"tasks on other hosts.*written=8, found=[1-7]\b"):
        world.run_job(0, OnTwoHosts(spark.range(8, numPartitions=2)))
    assert world.rows() == []

    world.run_job(0, SparkJob(spark.range(8, numPartitions=2)), "run-2")
    assert sorted(row["id"] for row in world.rows()) == list(range(8))
    assert world.left() == []
    world.close()


def test_a_text_that_names_no_folder_is_refused_by_the_name_of_its_column_and_not_by_ours(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = Schema(NestedField(1, "city", StringType()))
    for transform, label in ((IdentityTransform(), "city"), (TruncateTransform(300), r"truncate\[300\]\(city\)")):
        folder = tmp_path / str(transform)
        folder.mkdir()
        spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
        world = IcebergWorld(folder, schema, partition_spec=spec)

        with pytest.raises(InvalidRecordError, match=f"cannot be the name of a folder.*column='{label}'") as refused:
            world.run_job(0, SparkJob(spark.sql("SELECT repeat('x', 300) AS city")))

        assert "_oncelog" not in str(refused.value)
        assert world.rows() == []
        world.close()
