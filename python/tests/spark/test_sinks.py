"""Laws of the sink, through both of its doors."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from oncelog.types import ConsumerRecord
from tests.support.harness.variants import variants
from tests.support.log.logs import numbered, records, started, values, write_aborted, write_committed
from tests.support.spark.faults import armed, armed_source, failing_always, failing_once
from tests.support.spark.queries import (
    DOORS,
    copy,
    forget_last_commit,
    into,
    last_batch,
    stream,
)
from tests.support.spark.writers import writing_by

pytestmark = pytest.mark.parametrize("door", variants(*DOORS))

ROWS = "value binary, partition int"


def write(log: Log, *sent: bytes, number: int = 0) -> None:
    """Commit values to the topic that is copied, in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, number=number, topic="in")


def ends(log: Log, topic: str = "out") -> list[int]:
    """The log ends of a topic: equal before and after, they say that nothing was written."""
    return [found.log_end for found in log.admin.describe_topic(topic).partitions]


def contents(found: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    """Records without their offsets, between which control markers lie."""
    return [(record.partition, record.timestamp_ms, record.key, record.value, record.headers) for record in found]


def assert_no_round_is_open(log: Log) -> None:
    assert log.admin.find_hanging(max_age_ms=0) == []


# What is written ------------------------------------------------------------------------------------------------------


@pytest.mark.every_spark(java=True)
def test_a_copy_is_exact(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    with started(log) as producer, producer.transaction():
        for at in range(20):
            producer.send(
                "in",
                None if at == 7 else b"value-%d" % at,
                key=None if at == 3 else b"key-%d" % (at % 5),
                headers=[("a", b"%d" % at), ("none", None)] if at % 2 else (),
                timestamp_ms=1_700_000_000_000 + at,
                partition=at % 2,
            )
    rows = stream(spark, log, includeHeaders=True).select("key", "value", "headers", "timestamp", "partition")

    copy(rows, log, door, tmp_path / "ck", transactionalIdPrefix="copies")

    assert len(records(log, "out")) == 20
    assert contents(records(log, "out")) == contents(records(log, "in"))
    assert [found.transactional_id for found in log.admin.list_transactions(prefix="copies")] == [
        "copies-0",
        "copies-1",
    ]


def test_each_row_may_name_its_topic_also_one_that_is_made_while_the_query_runs(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    rows = stream(spark, log).selectExpr("value", "0 AS partition", "split(CAST(value AS STRING), '/')[0] AS topic")
    write(log, b"out/a")
    writer = into(rows, log, door, topic=None).option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        log.create_topic("new")
        write(log, b"new/b", b"out/c")
        query.processAllAvailable()
    finally:
        query.stop()

    assert (values(log, topic="out"), values(log, topic="new")) == ([b"out/a", b"out/c"], [b"new/b"])


def test_a_key_finds_the_partition_that_a_producer_gives_it(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    log.create_topic("wide", partitions=7)
    keys = [b"%d" % at for at in range(50)]
    with started(log) as producer, producer.transaction():
        for key in keys:
            producer.send("in", b"by sink", key=key)
            producer.send("wide", b"by producer", key=key)

    copy(stream(spark, log).select("key", "value"), log, door, tmp_path / "ck", topic="wide")

    found = {(record.value, record.key): record.partition for record in records(log, "wide")}
    by_sink, by_producer = ({key: found[value, key] for key in keys} for value in (b"by sink", b"by producer"))
    assert by_sink == by_producer
    assert len(set(by_sink.values())) == 7


def test_rows_without_a_key_land_once_and_text_as_bytes(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    write(log, *numbered("é".encode().decode("latin-1"), 5))

    copy(stream(spark, log).selectExpr("CAST(value AS STRING) AS value"), log, door, tmp_path / "ck")

    assert sorted(filter(None, values(log, topic="out"))) == sorted(filter(None, values(log, topic="in")))


def test_the_plan_of_a_batch_runs_once(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    write(log, *numbered("a", 5))
    computed = spark.sparkContext.accumulator(0)

    def count(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    copy(stream(spark, log).select("value").mapInArrow(count, "value binary"), log, door, tmp_path / "ck")

    assert computed.value == len(values(log, topic="out")) == 5


def test_batches_without_rows_commit_cleanly(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    """conformance: 51."""
    with started(log) as producer:
        write_aborted(producer, *numbered("no", 3), topic="in")
    log.admin.settle()
    for _ in range(2):
        copy(stream(spark, log), log, door, tmp_path / "ck", transactionalIdPrefix="copier")

    assert last_batch(tmp_path / "ck") > 0
    assert log.admin.describe_ledger("copier").last_batch_id == last_batch(tmp_path / "ck")
    assert ends(log) == [0, 0]
    assert_no_round_is_open(log)


# Again ----------------------------------------------------------------------------------------------------------------


@pytest.mark.every_spark
def test_a_replayed_batch_changes_nothing(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    """conformance: 52."""
    write(log, *numbered("a", 5))
    copy(stream(spark, log), log, door, tmp_path / "ck")
    before = records(log, "out")
    forget_last_commit(tmp_path / "ck")

    copy(stream(spark, log), log, door, tmp_path / "ck")

    assert [record.value for record in before] == numbered("a", 5)
    assert records(log, "out") == before
    write(log, *numbered("b", 5))
    copy(stream(spark, log), log, door, tmp_path / "ck")
    assert values(log, topic="out") == [*numbered("a", 5), *numbered("b", 5)]


def test_a_task_that_fails_behind_its_last_row_is_tried_again_and_leaves_one_copy(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 54."""
    write(log, *numbered("a", 5))
    write(log, *numbered("b", 5), number=1)
    rows = stream(spark, log).select("value", "partition").mapInArrow(failing_once(tmp_path), ROWS)

    copy(rows, log, door, tmp_path / "ck")

    assert len(list(tmp_path.glob("failed-*"))) == 2
    assert [values(log, number, "out") for number in (0, 1)] == [numbered("a", 5), numbered("b", 5)]
    assert_no_round_is_open(log)


@pytest.mark.walk
@pytest.mark.parametrize("point", [CrashPoint.TASK_WRITE, CrashPoint.FILE_FINISHED])
def test_a_task_that_is_killed_is_tried_again_and_leaves_one_copy(
    spark: SparkSession, log: Log, tmp_path: Path, door: str, point: CrashPoint
) -> None:
    """Only a Python worker can be killed without the driver, in whose JVM the jar's tasks run here. conformance: 54."""
    write(log, *numbered("a", 5))
    mark = tmp_path / "mark"

    with (
        writing_by(spark, "python"),
        armed(spark, point, mark) if door == "foreachBatch" else armed_source(spark, point, mark) as other_door,
    ):
        copy(stream(spark, log), log, other_door or door, tmp_path / "ck")

    assert mark.exists()
    assert values(log, topic="out") == numbered("a", 5)
    assert_no_round_is_open(log)


def test_a_job_that_fails_writes_nothing_and_the_next_run_goes_on(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 53."""
    write(log, *numbered("a", 5))
    rows = stream(spark, log).select("value", "partition")

    with pytest.raises(StreamingQueryException, match="a task fails on purpose"):
        copy(rows.mapInArrow(failing_always, ROWS), log, door, tmp_path / "ck")

    assert ends(log) == [0, 0]
    assert_no_round_is_open(log)
    copy(rows, log, door, tmp_path / "ck")
    assert values(log, topic="out") == numbered("a", 5)


# Histories that do not fit --------------------------------------------------------------------------------------------


def runs(spark: SparkSession, log: Log, door: str, checkpoint: Path, **options: object) -> StreamingQuery:
    """Copy one more row."""
    write(log, b"%d" % len(values(log, topic="in")))
    return copy(stream(spark, log), log, door, checkpoint, **options)


def test_a_sink_whose_topic_changed_is_told_so_and_goes_on_under_another_name(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    log.create_topic("new")
    runs(spark, log, door, tmp_path / "ck")

    with pytest.raises(StreamingQueryException, match=r"topic of this sink changed.*former_topic='out', topic='new'"):
        runs(spark, log, door, tmp_path / "ck", topic="new")
    runs(spark, log, door, tmp_path / "ck", topic="new", sinkName="new")

    assert (values(log, topic="out"), values(log, topic="new")) == ([b"0"], [b"1", b"2"])


def test_a_checkpoint_that_is_older_than_the_log_is_refused_and_the_newest_goes_on(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 58."""
    ages = []
    for at in range(3):
        write(log, b"%d" % at)
        copy(stream(spark, log), log, door, tmp_path / "ck")
        ages.append(shutil.copytree(tmp_path / "ck", tmp_path / f"ck-{at}"))
    write(log, b"3")
    before = ends(log)

    for checkpoint, reason in zip(
        ages, ("the log holds a later batch", "written with other source offsets"), strict=False
    ):
        with pytest.raises(StreamingQueryException, match=reason):
            copy(stream(spark, log), log, door, checkpoint)
    assert ends(log) == before

    copy(stream(spark, log), log, door, tmp_path / "ck")
    assert values(log, topic="out") == [b"0", b"1", b"2", b"3"]


@pytest.mark.sampled("checkpoints that were restored")
def test_a_checkpoint_that_is_restored_twice_is_used_once(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 58."""
    write(log, b"a")
    copy(stream(spark, log), log, door, tmp_path / "ck")
    restored = [shutil.copytree(tmp_path / "ck", tmp_path / f"restored-{at}") for at in (0, 1)]
    write(log, b"b")
    copy(stream(spark, log), log, door, restored[0])
    write(log, b"c")

    with pytest.raises(StreamingQueryException, match="written with other source offsets"):
        copy(stream(spark, log), log, door, restored[1])

    copy(stream(spark, log), log, door, restored[0])
    assert values(log, topic="out") == [b"a", b"b", b"c"]


def test_a_deleted_checkpoint_is_noticed_and_another_query_may_take_over(
    spark: SparkSession, log: Log, tmp_path: Path, door: str
) -> None:
    """conformance: 57."""
    write(log, b"a")
    first = copy(stream(spark, log), log, door, tmp_path / "ck", transactionalIdPrefix="copier")
    write(log, b"b")
    before = ends(log)
    rest = stream(spark, log, startingOffsets='{"in":{"0":1,"1":0}}')

    with pytest.raises(StreamingQueryException, match="this query has begun a new checkpoint") as caught:
        copy(stream(spark, log), log, door, tmp_path / "new", transactionalIdPrefix="copier")
    with pytest.raises(StreamingQueryException, match="takeover=<query id>"):
        copy(rest, log, door, tmp_path / "wrong", transactionalIdPrefix="copier", takeover="someone-else")

    assert ends(log) == before
    assert first.id in str(caught.value)
    copy(rest, log, door, tmp_path / "taken", transactionalIdPrefix="copier", takeover=first.id)
    shutil.copytree(tmp_path / "ck", tmp_path / "undone")
    forget_last_commit(tmp_path / "undone")
    for former in ("ck", "undone"):  # with its next batch, and with the one that it has written
        with pytest.raises(StreamingQueryException, match="another query has history under this prefix"):
            runs(spark, log, door, tmp_path / former, transactionalIdPrefix="copier")
    assert values(log, topic="out") == [b"a", b"b"]


def test_two_queries_with_one_prefix_do_not_mix(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    """conformance: 62."""
    write(log, b"a")
    copy(stream(spark, log), log, door, tmp_path / "one", transactionalIdPrefix="copier")
    before = ends(log)

    with pytest.raises(StreamingQueryException, match="give this query its own transactionalIdPrefix"):
        copy(stream(spark, log), log, door, tmp_path / "two", transactionalIdPrefix="copier")

    assert ends(log) == before
    write(log, b"b")
    copy(stream(spark, log), log, door, tmp_path / "one", transactionalIdPrefix="copier")
    copy(stream(spark, log), log, door, tmp_path / "two", transactionalIdPrefix="copier-of-my-own")
    assert Counter(values(log, topic="out")) == {b"a": 2, b"b": 2}
