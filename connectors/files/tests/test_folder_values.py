"""Values at the ends of what Spark holds: each is read back as it was, or refused before the decision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import oncelog_files
from folder_worlds import FilesWorld
from oncelog.errors import InvalidRecordError, UsageError
from oncelog.spark.kit.manifests import hash_of
from oncelog.testing.target_contract import at
from oncelog_files import manifests
from oncelog_files.crash_points import FilesCrashPoint

pytestmark = pytest.mark.sampled("files")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[FilesWorld]:
    found = FilesWorld(tmp_path, spark)
    yield found
    assert found.left() == []
    found.close()


def write(world: FilesWorld, batch_id: int, *expressions: str, run: str = "run-1") -> None:
    world.run_job(batch_id, world.spark.range(1).selectExpr(*expressions), run)


def read(world: FilesWorld, **options: Any) -> Any:
    return oncelog_files.read(world.spark, str(world.out), **options)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("'007'", "string"),
        ("'1.00'", "string"),
        ("'2024-02-29'", "string"),
        ("'null'", "string"),
        ("'a/b=c%20: \n{x}*é '", "string"),
        ("date'1582-10-14'", "date"),
        ("false", "boolean"),
        ("1.50BD", "decimal(3,2)"),
        ("-12345678901234567890.10BD", "decimal(22,2)"),
        ("tinyint(7)", "tinyint"),
        ("double(0.1)", "double"),
        ("CAST(NULL AS string)", "string"),
        ("CAST(NULL AS date)", "date"),
    ],
)
def test_a_column_that_becomes_a_folder_is_read_with_its_type(world: FilesWorld, value: str, type_: str) -> None:
    world.options = {"partitionBy": "P"}
    write(world, 0, f"{value} AS p", "1 AS id")
    write(world, 1, f"CAST(NULL AS {type_}) AS p", "2 AS id")

    found = read(world)

    assert found.schema["P"].dataType.simpleString() == type_
    expected = world.spark.range(1).selectExpr(f"{value} AS P", "1 AS id").collect()[0]
    assert {row.id: row.P for row in found.collect()} == {1: expected.P, 2: None}
    given = read(world, schema="id long")
    assert (given.schema["id"].dataType.simpleString(), given.schema["P"].dataType.simpleString()) == ("bigint", type_)


def test_a_folder_whose_batches_have_several_types_is_read_as_texts_and_the_users_schema_counts(
    world: FilesWorld,
) -> None:
    world.options = {"partitionBy": "p", "format": "json"}
    write(world, 0, "'007' AS p", "'x' AS id")
    write(world, 1, "7 AS p", "'y' AS id")

    assert sorted((row.id, row.p) for row in read(world).collect()) == [("x", "007"), ("y", "7")]
    assert sorted(row.p for row in read(world, schema="id string, p int").collect()) == [7, 7]


def test_batches_of_an_older_version_are_read_as_before(world: FilesWorld) -> None:
    """Their manifests do not name the types of folders."""
    world.options = {"partitionBy": "p"}

    def make_older() -> None:
        (staged,) = world.out.glob("_oncelog/staging/*/*/manifest.json")
        found = json.loads(staged.read_text())
        assert (found.pop("version"), found.pop("partitions")) == (2, {"p": "string"})
        text = json.dumps({"version": 1, **found}) + "\n"
        assert manifests.parse(text, hash_of(text), "an older one").partitions == {}
        staged.write_text(text)

    with at(FilesCrashPoint.SHOWN, make_older):
        write(world, 0, "'007' AS p", "1 AS id")

    assert [row.p for row in read(world).collect()] == [7]


@pytest.mark.parametrize("format_", ["parquet", "json", "text"])
@pytest.mark.parametrize("value", ["''", "'__HIVE_DEFAULT_PARTITION__'", "CAST(X'FF41' AS string)"])
def test_a_text_that_no_folder_keeps_decides_nothing(world: FilesWorld, format_: str, value: str) -> None:
    world.options = {"partitionBy": "p", "format": format_}

    with pytest.raises(InvalidRecordError, match=r"(become the name of a folder|not valid UTF-8).*column='p'"):
        write(world, 0, f"{value} AS p", "'x' AS value")

    write(world, 0, "' ' AS p", "'x' AS value", run="run-2")
    assert [(row.p, row.value) for row in read(world).collect()] == [(" ", "x")]


def test_columns_that_cannot_become_folders_are_named(spark: SparkSession, tmp_path: Path) -> None:
    for expression, name, said in (
        ("1 AS `.day`", ".day", r"begin with a dot; rename .*column='\.day'"),
        ("X'01' AS day", "day", r"bytes in the name of a folder .*column='day'"),
    ):
        sink = oncelog_files.sink(path=str(tmp_path), partitionBy=name)
        with pytest.raises(InvalidRecordError, match=said):
            sink(spark.range(1).selectExpr(expression, "id"), 0)


def test_a_name_that_is_too_long_for_a_folder_decides_nothing(world: FilesWorld) -> None:
    world.options = {"partitionBy": "p"}

    for value in ("repeat('x', 254)", "repeat('é', 127)", "repeat('/', 85)"):
        with pytest.raises(InvalidRecordError, match=r"too long for the name of a folder; shorten it.*column='p'"):
            write(world, 0, f"{value} AS p", "1 AS id")

    write(world, 0, "repeat('x', 253) AS p", "1 AS id", run="run-2")
    write(world, 1, "repeat('/', 84) AS p", "2 AS id", run="run-2")
    assert sorted(len(row.p) for row in read(world).collect()) == [84, 253]


@pytest.mark.parametrize("format_", ["parquet", "orc", "json", "csv", "xml"])
def test_a_text_that_is_not_utf8_decides_nothing(world: FilesWorld, format_: str) -> None:
    world.options = {"format": format_, "format.rowTag": "row"}

    with pytest.raises(InvalidRecordError, match=r"not valid UTF-8.*column='value', value=0xc3"):
        write(world, 0, "CAST(X'C328' AS string) AS value")


def test_files_of_text_keep_bytes_of_any_encoding(world: FilesWorld) -> None:
    world.options = {"format": "text"}

    write(world, 0, "CAST(X'E9FF' AS string) AS value")

    assert b"".join(file.read_bytes() for file in world.out.glob("part-*.txt")) == b"\xe9\xff\n"


@pytest.mark.parametrize("format_", ["parquet", "orc", "json", "csv", "xml"])
def test_microseconds_are_kept(world: FilesWorld, format_: str) -> None:
    world.options = {"format": format_, "format.rowTag": "row"}
    rows = world.spark.range(1).selectExpr(
        "timestamp'2024-02-29 23:59:59.123456' AS a", "timestamp_ntz'1600-01-01 00:00:00.000001' AS b"
    )
    world.run_job(0, rows)

    assert read(world, schema=rows.schema, rowTag="row").collect() == rows.collect()


def test_a_format_of_times_that_the_user_names_is_used(world: FilesWorld) -> None:
    world.options = {"format": "json", "format.TimestampFormat": "yyyy"}

    write(world, 0, "timestamp'2024-02-29 23:59:59.123456' AS a")

    assert json.loads("".join(file.read_text() for file in world.out.glob("part-*.json"))) == {"a": "2024"}


# Folders of others ----------------------------------------------------------------------------------------------------


def test_the_folder_of_sparks_own_file_sink_is_refused(world: FilesWorld) -> None:
    """Spark's readers go by `_spark_metadata`: they would not see a row of ours."""
    spark, source = world.spark, world.folder / "source"
    source.mkdir()
    (source / "1.json").write_text('{"value": "x"}')
    rows = spark.readStream.schema("value string").json(str(source)).writeStream.format("parquet")
    rows = rows.option("checkpointLocation", str(world.folder / "ck")).trigger(availableNow=True)
    rows.start(str(world.out)).awaitTermination()

    for run in ("run-1", "run-2"):
        with pytest.raises(UsageError, match=r"would not see what .*: give .*owner=.Spark's own file sink"):
            world.run(0, ["y"], run)

    assert [row.value for row in spark.read.parquet(str(world.out)).collect()] == ["x"]
    assert not (world.out / "_oncelog" / "staging").exists()


@pytest.mark.parametrize(
    ("name", "owner"),
    [("_delta_log/0.json", "a Delta table"), (".hoodie/x", "a Hudi"), ("metadata/1.metadata.json", "an Iceberg")],
)
def test_the_folder_of_a_table_is_refused(world: FilesWorld, name: str, owner: str) -> None:
    file = world.out / name
    file.parent.mkdir(parents=True)
    file.write_text("")

    target = world.target()
    for run in ("run-1", "run-2"):
        with pytest.raises(UsageError, match=rf"belongs to another writer.*owner='{owner}"):
            world.run(0, ["y"], run, target)
    file.unlink()
    file.parent.rmdir()
    world.run(0, ["y"], "run-3", target)
    assert world.holds(["y"])
