"""What the sink refuses, each by name: before a job runs, or before the decision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation, SparkSession, functions

import oncelog_files
from folder_worlds import FilesWorld, is_visible
from oncelog.errors import FileWriteError, InvalidOptionError, InvalidRecordError, NotPreparedError, UsageError
from oncelog.spark.kit import counting
from oncelog.testing.target_contract import FIRST, at
from oncelog_files.crash_points import FilesCrashPoint

pytestmark = pytest.mark.sampled("files")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[FilesWorld]:
    found = FilesWorld(tmp_path, spark)
    yield found
    assert found.left() == []
    found.close()


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            ["1 AS a", "2 AS b"],
            {"format": "text"},
            r"cannot write these columns in this format \[format='text', columns=",
        ),
        (["map(1, 2) AS a"], {"format": "csv"}, "cannot write these columns .*CSV datasource doesn.*support"),
        (["1 AS a", "2 AS a"], {}, "cannot write these columns .*reason='.*(already exists|duplicate)"),
        (["1 AS a"], {"partitionBy": "a"}, "cannot write these columns .*reason='.*all columns"),
    ],
)
def test_rows_that_a_format_cannot_hold_decide_nothing(
    world: FilesWorld, columns: list[str], options: dict[str, Any], said: str
) -> None:
    world.options = options

    with pytest.raises(InvalidRecordError, match=said):
        world.run_job(0, world.spark.range(2).selectExpr(*columns))

    world.options = {}
    assert not world.run(0, FIRST, "run-2").is_replay


def test_a_column_of_partition_by_that_is_missing_is_named_before_a_job_runs(spark: SparkSession) -> None:
    sink = oncelog_files.sink(path="/out", partitionBy="year,Month,day")

    with pytest.raises(InvalidRecordError, match=r"partitionBy is missing .*missing=\['day'\].*'year', 'month'"):
        sink(spark.range(1).selectExpr("1 AS year", "2 AS month"), 0)


def test_a_path_that_is_a_file_is_refused(world: FilesWorld) -> None:
    world.out.write_text("a file")

    with (
        at(FilesCrashPoint.WRITTEN, lambda: None) as passed,
        pytest.raises(UsageError, match=r"must be a folder, and this is a file \[path='file:/"),
    ):
        world.run(0, FIRST)
    assert FilesCrashPoint.WRITTEN not in passed


def test_a_folder_in_which_nothing_can_be_created_is_told(world: FilesWorld) -> None:
    world.out = Path("/proc/out")

    with pytest.raises(FileWriteError, match=r"the folder cannot be created \[path='file:/proc/out/_oncelog/staging/"):
        world.run(0, FIRST)


def test_a_format_without_its_package_is_told(world: FilesWorld) -> None:
    world.options = {"format": "avro"}

    with pytest.raises(UsageError, match="Spark has no writer of this format; start it with the package"):
        world.run(0, FIRST)


def test_a_writers_option_that_spark_refuses_is_told(world: FilesWorld) -> None:
    world.options = {"compression": "nonsense"}

    with pytest.raises(InvalidOptionError, match=r"Spark's writer refuses an option: .*nonsense"):
        world.run(0, FIRST)


def test_a_full_disk_decides_nothing_and_the_batch_is_written_when_there_is_space(world: FilesWorld) -> None:
    full = world.spark.range(2).selectExpr("raise_error('No space left on device') AS value")

    with pytest.raises(FileWriteError, match=r"their place is full.*reason='No space left on device'"):
        world.run_job(0, full.selectExpr("string(value) AS value"))

    assert not world.run(0, FIRST, "run-2").is_replay
    assert world.holds(FIRST)


def test_a_path_without_a_file_system_of_its_own_needs_znodes_where_sparks_is_not_local(spark: SparkSession) -> None:
    sink = oncelog_files.sink(path="/out")
    session = spark.newSession()
    session.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")

    with pytest.raises(InvalidOptionError, match="not on a local disk, so the ledger cannot be in it"):
        sink.columns(session.range(1))
        sink.open()


def test_files_that_only_executors_see_are_told(world: FilesWorld) -> None:
    def leave_to_the_driver_what_it_sees() -> None:
        for file in world.out.rglob("part-*.parquet"):
            file.unlink()

    with (
        at(FilesCrashPoint.WRITTEN, leave_to_the_driver_what_it_sees),
        pytest.raises(FileWriteError, match=r"the driver sees no files of them.*rows=3"),
    ):
        world.run(0, FIRST)


@pytest.mark.parametrize("options", [{}, {"partitionBy": "part"}, {"format": "json"}])
def test_a_batch_is_refused_if_the_driver_sees_the_files_of_some_hosts_only(
    world: FilesWorld, options: dict[str, Any]
) -> None:
    world.options = options
    rows = world.spark.range(8, numPartitions=4).selectExpr("id % 2 AS part", "CAST(id AS string) AS value")

    def lose_one() -> None:
        files = sorted(file for file in world.out.rglob("part-*") if file.name.startswith("part-00002-"))
        assert files
        for file in files:
            file.unlink()

    with (
        at(FilesCrashPoint.WRITTEN, lose_one),
        pytest.raises(FileWriteError, match=r"tasks on other hosts.*rows=8, tasks=4, unseen=\[2\]"),
    ):
        world.run_job(0, rows)

    assert not world.run_job(0, rows, "run-2").is_replay
    assert len([file for file in world.out.rglob("part-*") if is_visible(file, world.out)]) == (
        8 if "partitionBy" in options else 4
    )


def test_a_count_that_spark_never_tells_is_not_waited_for_for_ever(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_run = Observation()
    spark.range(1).observe(never_run, functions.count("*").alias("rows"))
    monkeypatch.setattr(counting, "COUNT_TIMEOUT_MS", 20)

    with pytest.raises(NotPreparedError, match=r"did not say how many rows .*timeout_ms=20"):
        counting.observed(never_run)
