"""Batch reads and batch writes: `spark.read` and `df.write`."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.logs import (
    lso,
    numbered,
    records,
    started,
    state,
    tp,
    values,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.spark.faults import armed_source, failing_always, failing_once
from tests.support.spark.queries import place, table

ENDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": ({}, ["a0", "a1", "a2", "b0", "b1", "b2"]),
    "earliest to latest": ({"startingOffsets": "earliest", "endingOffsets": "latest"},
                           ["a0", "a1", "a2", "b0", "b1", "b2"]),
    "offsets": ({"startingOffsets": '{"in":{"0":1,"1":-2}}', "endingOffsets": '{"in":{"0":-1,"1":2}}'},
                ["a1", "a2", "b0", "b1"]),
    "nothing": ({"startingOffsets": '{"in":{"0":3,"1":3}}'}, []),
    "from a time": ({"startingTimestamp": 2000}, ["a2", "b1", "b2"]),
    "to a time": ({"endingTimestamp": 2000}, ["a0", "a1", "b0"]),
    "times": ({"startingOffsetsByTimestamp": '{"in":{"0":1,"1":3000}}',
               "endingOffsetsByTimestamp": '{"in":{"0":2000,"1":9999}}'}, ["a1", "b2"]),
    "no record so late": ({"startingTimestamp": 9999, "startingOffsetsByTimestampStrategy": "latest"}, []),
    "group": ({"startingOffsets": "group", "groupId": "g"}, ["a2", "b0", "b1", "b2"]),
    "assigned": ({"subscribe": None, "assign": '{"in":[1]}'}, ["b0", "b1", "b2"]),
    "pattern": ({"subscribe": None, "subscribePattern": "i.?"}, ["a0", "a1", "a2", "b0", "b1", "b2"]),
}  # fmt: skip


@pytest.mark.usefixtures("reader")
def test_a_read_begins_and_ends_where_it_is_told(spark: SparkSession, log: Log) -> None:
    with log.producer() as producer:
        for at in range(3):
            producer.send("in", b"a%d" % at, partition=0, timestamp_ms=1000 * at)
            producer.send("in", b"b%d" % at, partition=1, timestamp_ms=1000 * (at + 1))
    log.admin.alter_offsets("g", {tp(0, "in"): 2})
    tables = [
        table(spark, log, **options).selectExpr(f"'{name}' AS name", "CAST(value AS STRING)")
        for name, (options, _) in ENDS.items()
    ]

    rows = reduce(DataFrame.union, tables).collect()

    found = {name: sorted(row.value for row in rows if row.name == name) for name in ENDS}
    assert found == {name: wanted for name, (_, wanted) in ENDS.items()}


@pytest.mark.usefixtures("reader")
def test_only_committed_rows_are_read_unless_all_are_asked_for(spark: SparkSession, log: Log) -> None:
    """conformance: 36, 37, 42."""
    with started(log, "one") as one, started(log, "two") as two:
        write_committed(one, b"a", topic="in")
        write_aborted(one, b"aborted", topic="in")
        write_open(one, b"open", topic="in")
        write_committed(two, b"behind", topic="in")
        committed = table(spark, log).collect()
        every = table(spark, log, isolationLevel="read_uncommitted").collect()
        one.abort_transaction()

    assert [bytes(row.value) for row in committed] == [b"a"]
    assert sorted(bytes(row.value) for row in every) == [b"a", b"aborted", b"behind", b"open"]


@pytest.mark.usefixtures("reader")
def test_an_empty_topic_is_an_empty_table(spark: SparkSession, log: Log) -> None:
    assert table(spark, log).collect() == []


@pytest.mark.usefixtures("reader")
def test_a_read_is_split_into_the_tasks_that_are_asked_for(spark: SparkSession, log: Log) -> None:
    """One block of rows, so that tasks have to share it."""
    with started(log) as producer:
        write_committed(producer, *numbered("a", 10), topic="in")

    split = table(spark, log, minPartitions=4)

    assert split.rdd.getNumPartitions() >= 4
    assert [(row.offset, bytes(row.value)) for row in split.sort("offset").collect()] == list(
        enumerate(numbered("a", 10))
    )


# Writing --------------------------------------------------------------------------------------------------------------


def save(df: DataFrame, log: Log, *, format: str = "oncelog", mode: str = "append", **options: object) -> None:
    df.write.format(format).mode(mode).options(**place(log), topic="out", **options).save()  # type: ignore[arg-type]


def rows_of(spark: SparkSession, *sent: bytes) -> DataFrame:
    """Rows in two partitions of Spark's, which go to the log partitions in turn."""
    found = [(value, at % 2) for at, value in enumerate(sent)]
    return spark.createDataFrame(found, "value binary, partition int").repartition(2, "partition")


@pytest.mark.every_spark
def test_a_write_appends_all_of_its_rows_each_time_it_is_run(spark: SparkSession, log: Log) -> None:
    for _ in range(2):
        save(rows_of(spark, *numbered("a", 6)), log)

    assert sorted(filter(None, values(log, topic="out"))) == sorted(numbered("a", 6) * 2)
    assert values(log, 0, "out") == [b"a-0", b"a-2", b"a-4"] * 2
    assert log.services.store.children(paths.HOLDS) == []


def test_a_write_of_no_rows_writes_nothing(spark: SparkSession, log: Log) -> None:
    save(rows_of(spark, b"a").where("value = 'b'"), log)

    assert state(log, 0, "out").log_end == state(log, 1, "out").log_end == 0


def test_a_log_is_not_overwritten(spark: SparkSession, log: Log) -> None:
    with pytest.raises(Exception, match="a log cannot be overwritten; use mode\\('append'\\)"):
        save(rows_of(spark, b"a"), log, mode="overwrite")

    assert records(log, "out") == []


def test_a_write_that_fails_writes_nothing(spark: SparkSession, log: Log) -> None:
    with pytest.raises(Exception, match="a task fails on purpose"):
        save(rows_of(spark, *numbered("a", 6)).mapInArrow(failing_always, "value binary, partition int"), log)

    assert state(log, 0, "out").log_end == state(log, 1, "out").log_end == 0
    assert log.services.store.children(paths.HOLDS) == []


def test_a_task_that_is_tried_again_leaves_one_copy(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """conformance: 54."""
    rows = rows_of(spark, *numbered("a", 6)).mapInArrow(failing_once(tmp_path), "value binary, partition int")

    save(rows, log)

    assert sorted(value or b"" for value in values(log, topic="out")) == numbered("a", 6)
    assert len(list(tmp_path.glob("failed-*"))) > 0


def test_a_write_that_dies_before_its_commit_shows_nothing_and_its_transaction_can_be_ended_by_name(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """conformance: 43."""
    with (
        armed_source(spark, CrashPoint.PRODUCER_APPENDED, tmp_path / "mark") as format_name,
        pytest.raises(Exception, match="Python worker exited unexpectedly"),
    ):
        save(rows_of(spark, *numbered("a", 6)), log, format=format_name)

    (hanging,) = log.admin.find_hanging(max_age_ms=0)
    assert hanging.transactional_id is not None
    assert lso(log, 0, "out") == 0 < state(log, 0, "out").log_end
    log.admin.abort_transaction(hanging.transactional_id)
    save(rows_of(spark, *numbered("a", 6)), log)
    assert sorted(value or b"" for value in values(log, topic="out")) == numbered("a", 6)
