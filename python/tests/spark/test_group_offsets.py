"""A sink that keeps a consumer group: the source offsets of a batch become the group's with its rows, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog.spark
from oncelog.crash_points import CrashPoint
from oncelog.errors import GroupOwnedError
from oncelog.runtime import Log
from tests.support.harness.variants import variants
from tests.support.log.logs import lso, numbered, started, tp, values, write_aborted, write_committed
from tests.support.spark.faults import armed_source, passed_on
from tests.support.spark.queries import DOORS, copy, place, run_available, stream

pytestmark = pytest.mark.sampled

GROUP = "copiers"
SINK = {"groupId": GROUP, "transactionalIdPrefix": "copier"}
ANY_DOOR = pytest.mark.parametrize("door", variants(*DOORS))


def write(log: Log, *sent: bytes, number: int = 0) -> None:
    """Commit values to the topic that is copied, in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, number=number, topic="in")


def copy_with_group(
    spark: SparkSession, log: Log, door: str, checkpoint: Path, takeover: str | None = None
) -> StreamingQuery:
    """Copy from where the group is, or from the checkpoint."""
    rows = stream(spark, log, groupId=GROUP, startingOffsets="group").select("value", "partition")
    return copy(rows, log, door, checkpoint, takeover=takeover, **SINK)


def committed(log: Log) -> dict[int, int | None]:
    return {found.partition: found.offset for found in log.admin.describe_group(GROUP).partitions}


# A lost checkpoint ----------------------------------------------------------------------------------------------------


@ANY_DOOR
def test_after_a_lost_checkpoint_a_query_goes_on_where_its_last_batch_ended(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 44, 57."""
    takeover = None
    for life in range(3):
        for number in (0, 1):
            write(log, b"%d-%d" % (life, number), number=number)
        takeover = copy_with_group(spark, log, door, tmp_path / "ck", takeover).id
        shutil.rmtree(tmp_path / "ck")
        write(log, b"%d-late" % life)

    copy_with_group(spark, log, door, tmp_path / "ck", takeover)

    assert values(log, 0, "out") == [b"0-0", b"0-late", b"1-0", b"1-late", b"2-0", b"2-late"]
    assert values(log, 1, "out") == [b"0-1", b"1-1", b"2-1"]


@pytest.mark.walk
@pytest.mark.parametrize("point", [CrashPoint.ROUND_STAGED, CrashPoint.ROUND_DECIDED])
def test_a_checkpoint_that_is_lost_with_a_batch_half_done_loses_and_doubles_nothing(
    spark: SparkSession, log: Log, tmp_path: Path, point: CrashPoint
) -> None:
    """The dead driver's offsets are staged and its round open, or decided and not settled. conformance: 44, 53, 57."""
    write(log, b"first")
    query = copy_with_group(spark, log, "oncelog", tmp_path / "ck")
    write(log, *numbered("a", 3))
    with (
        armed_source(spark, passed_on(log, point), tmp_path / "mark") as door,
        pytest.raises(StreamingQueryException, match="Python worker exited unexpectedly"),
    ):
        copy_with_group(spark, log, door, tmp_path / "ck")
    shutil.rmtree(tmp_path / "ck")

    copy_with_group(spark, log, "oncelog", tmp_path / "ck", takeover=query.id)

    assert values(log, topic="out") == [b"first", *numbered("a", 3)]


@ANY_DOOR
def test_a_batch_without_rows_moves_the_group_too(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    """conformance: 44, 51."""
    with started(log) as producer:
        write_aborted(producer, *numbered("no", 3), topic="in")
    log.admin.settle()

    copy_with_group(spark, log, door, tmp_path / "ck")

    assert committed(log) == {0: lso(log, 0, "in"), 1: 0}
    assert lso(log, 0, "in") > 3
    assert values(log, topic="out") == []


# Whose the group is ---------------------------------------------------------------------------------------------------


@ANY_DOOR
def test_the_group_of_a_sink_takes_no_other_commits(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    write(log, b"a")
    copy_with_group(spark, log, door, tmp_path / "ck")
    before = committed(log)

    with log.consumer(group_id=GROUP) as consumer:
        consumer.assign([tp(0, "in")])
        with pytest.raises(GroupOwnedError, match="a sink owns the offsets"):
            consumer.commit({tp(0, "in"): 0})
    with started(log, "thief") as producer:
        producer.begin_transaction()
        with pytest.raises(GroupOwnedError, match="a sink owns the offsets"):
            producer.send_offsets_to_transaction({tp(0, "in"): 0}, GROUP)
    with pytest.raises(GroupOwnedError, match="a sink owns the offsets"):
        log.admin.alter_offsets(GROUP, {tp(0, "in"): 0})

    assert committed(log) == before
    write(log, b"b")
    copy_with_group(spark, log, door, tmp_path / "ck")
    assert values(log, topic="out") == [b"a", b"b"]
    assert log.admin.describe_group(GROUP).owning_prefix == "copier"


@ANY_DOOR
def test_two_sinks_do_not_share_a_group(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    write(log, b"a")
    copy_with_group(spark, log, door, tmp_path / "ck")
    before = values(log, topic="out")
    write(log, b"b")
    rows = stream(spark, log, groupId=GROUP, startingOffsets="group").select("value")

    with pytest.raises(StreamingQueryException, match="a sink owns the offsets"):
        copy(rows, log, door, tmp_path / "other", groupId=GROUP, transactionalIdPrefix="other")

    assert values(log, topic="out") == before


@ANY_DOOR
def test_a_group_that_is_elsewhere_than_the_batch_is_refused(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    write(log, b"a")
    write(log, b"b")
    log.admin.alter_offsets(GROUP, {tp(0, "in"): 1})
    from_the_beginning = stream(spark, log, groupId=GROUP).select("value")

    with pytest.raises(StreamingQueryException, match="does not start at the group's committed offsets"):
        copy(from_the_beginning, log, door, tmp_path / "ck", **SINK)

    assert values(log, topic="out") == []
    shutil.rmtree(tmp_path / "ck")
    log.admin.delete_group(GROUP)
    log.admin.alter_offsets(GROUP, {tp(0, "in"): 1})
    copy(stream(spark, log, groupId=GROUP, startingOffsets="group"), log, door, tmp_path / "ck", groupId=GROUP,
         transactionalIdPrefix="copier-anew")  # fmt: skip
    assert values(log, topic="out") == [b"b"]


# Queries whose progress is more than the group's offsets --------------------------------------------------------------

Plan = Callable[[SparkSession, Log, Path], DataFrame]


def two_groups(spark: SparkSession, log: Log, folder: Path) -> DataFrame:
    one, other = (stream(spark, log, None, assign=f'{{"in":[{at}]}}', groupId=f"g{at}") for at in (0, 1))
    return one.union(other)


def another_source(spark: SparkSession, log: Log, folder: Path) -> DataFrame:
    lines = spark.readStream.format("text").load(str(folder))
    return stream(spark, log, groupId=GROUP).selectExpr("CAST(value AS STRING)").union(lines)


def another_log(spark: SparkSession, log: Log, folder: Path) -> DataFrame:
    with oncelog.open(folder / "another") as other:
        other.create_topic("in")
        return stream(spark, other, groupId=GROUP)


def one_partition_twice(spark: SparkSession, log: Log, folder: Path) -> DataFrame:
    return stream(spark, log, groupId=GROUP).union(stream(spark, log, groupId=GROUP))


UNFIT: dict[str, tuple[Plan, str]] = {
    "a source without the group": (lambda spark, log, folder: stream(spark, log), "with the sink's groupId"),
    "a source with another group": (
        lambda spark, log, folder: stream(spark, log, groupId="x"),
        "with the sink's groupId",
    ),
    "sources with two groups": (two_groups, "with the sink's groupId"),
    "another source beside": (another_source, "with the sink's groupId"),
    "a source of another log": (another_log, "reads another log than the sink writes"),
    "one partition read twice": (one_partition_twice, "two sources of the query read one partition"),
}


@ANY_DOOR
@pytest.mark.parametrize("case", UNFIT)
def test_a_query_whose_progress_is_not_the_groups_is_refused(
    spark: SparkSession, log: Log, tmp_path: Path, door: str, case: str
) -> None:
    plan, text = UNFIT[case]
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1").write_text("a\n")
    write(log, b"a")

    with pytest.raises(StreamingQueryException, match=text):
        copy(plan(spark, log, tmp_path / "lines").select("value"), log, door, tmp_path / "ck", **SINK)

    assert values(log, topic="out") == []


def test_a_query_that_keeps_state_is_refused(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    write(log, b"a")
    sink = oncelog.spark.sink(**place(log), topic="out", **SINK)
    counts = stream(spark, log, groupId=GROUP).groupBy("value").count().select("value")

    with pytest.raises(StreamingQueryException, match="the query keeps state"):
        run_available(counts.writeStream.outputMode("update").foreachBatch(sink), tmp_path / "ck")

    assert values(log, topic="out") == []
