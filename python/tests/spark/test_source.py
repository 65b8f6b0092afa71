"""The source as a stream: where it starts, what it shows, how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelog.runtime import Log
from oncelog.spark.offsets import parse_offset
from tests.support.harness.waiting import until
from tests.support.log.logs import (
    lso,
    numbered,
    partition,
    send,
    started,
    state,
    tp,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.spark.queries import (
    Rows,
    forget_last_commit,
    last_batch,
    logged_offsets,
    read_available,
    run_available,
    stream,
)

pytestmark = pytest.mark.usefixtures("reader")

COLUMNS = (
    "key", "value", "topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "timestampType", "headers"
)  # fmt: skip


def write(log: Log, *sent: bytes, number: int = 0, topic: str = "in") -> None:
    """Commit values in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, number=number, topic=topic)


def abort(log: Log, *sent: bytes, number: int = 0) -> None:
    """Append values in one transaction, and abort it."""
    with started(log, "quitter") as producer:
        write_aborted(producer, *sent, number=number, topic="in")


@contextmanager
def running(df: DataFrame, rows: Rows, checkpoint: Path) -> Iterator[StreamingQuery]:
    """A query that goes on until the end of the block."""
    writer = df.writeStream.foreachBatch(rows).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        yield query
    finally:
        query.stop()


# What rows look like --------------------------------------------------------------------------------------------------


def test_rows_have_the_columns_of_sparks_kafka_source(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    with log.producer() as producer:
        headers = [("one", b"1"), ("none", None)]
        producer.send("in", b"v", key=b"k", partition=1, headers=headers, timestamp_ms=1_700_000_000_123)
        producer.send("in", None, partition=0, timestamp_ms=0)

    rows = read_available(stream(spark, log, includeHeaders=True), tmp_path / "ck", *COLUMNS)

    named = [Row(key="one", value=b"1"), Row(key="none", value=None)]
    assert sorted(rows.all(), key=lambda row: row.partition) == [
        Row(
            key=None, value=None, topic="in", partition=0, offset=0, timestamp=0, timestampType=0, headers=None
        ),
        Row(
            key=b"k", value=b"v", topic="in", partition=1, offset=0, timestamp=1_700_000_000_123, timestampType=0,
            headers=named,
        ),
    ]  # fmt: skip


# Where it starts ------------------------------------------------------------------------------------------------------

STARTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "earliest": ({}, ["a0", "a1", "a2", "b0", "b1", "b2", "late"]),
    "latest": ({"startingOffsets": "latest"}, ["late"]),
    "default": ({"startingOffsets": None}, ["late"]),
    "offsets": ({"startingOffsets": '{"in":{"0":1,"1":-1}}'}, ["a1", "a2", "late"]),
    "offsets, earliest": ({"startingOffsets": '{"in":{"0":-1,"1":-2}}'}, ["b0", "b1", "b2", "late"]),
    "time": ({"startingOffsets": None, "startingTimestamp": 2000}, ["a2", "b1", "b2", "late"]),
    "times": (
        {"startingOffsets": None, "startingOffsetsByTimestamp": '{"in":{"0":1001,"1":9999}}',
         "startingOffsetsByTimestampStrategy": "latest"},
        ["a2", "late"],
    ),
    "group": ({"startingOffsets": "group", "groupId": "g"}, ["a2", "b0", "b1", "b2", "late"]),
}  # fmt: skip


def test_a_new_query_starts_where_it_is_told(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """conformance: 37."""
    with log.producer() as producer:
        for at in range(3):
            producer.send("in", b"a%d" % at, partition=0, timestamp_ms=1000 * at)
            producer.send("in", b"b%d" % at, partition=1, timestamp_ms=1000 * (at + 1))
    log.admin.alter_offsets("g", {tp(0, "in"): 2})
    streams = [
        stream(spark, log, **options).selectExpr(f"'{name}' AS start", "value") for name, (options, _) in STARTS.items()
    ]
    rows = Rows("start", "CAST(value AS STRING) AS value")

    with running(reduce(DataFrame.union, streams), rows, tmp_path / "ck") as query:
        write(log, b"late")
        query.processAllAvailable()

    found = {name: sorted(row.value for row in rows.all() if row.start == name) for name in STARTS}
    assert found == {name: wanted for name, (_, wanted) in STARTS.items()}


@pytest.mark.every_spark
def test_a_query_goes_on_where_its_checkpoint_ends(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    seen = []
    for at in range(3):
        write(log, b"%d" % at, number=at % 2)
        seen += read_available(stream(spark, log), tmp_path / "ck").values()

    assert seen == [b"0", b"1", b"2"]


def test_a_replay_of_the_first_batch_loses_nothing_that_came_since(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Spark keeps no starting offset: asked anew, `latest` would lie behind what was written meanwhile."""
    write(log, b"before")
    read_available(stream(spark, log, startingOffsets="latest"), tmp_path / "ck")
    assert last_batch(tmp_path / "ck") == 0
    forget_last_commit(tmp_path / "ck")
    write(log, b"after")

    rows = read_available(stream(spark, log, startingOffsets="latest"), tmp_path / "ck")

    assert rows.values() == [b"after"]
    assert rows.batches[0] == []


# What it shows --------------------------------------------------------------------------------------------------------


def test_only_committed_rows_show_unless_the_query_asks_for_all(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """conformance: 36, 37, 42."""
    write(log, b"a")
    abort(log, b"aborted")
    with started(log, "open") as producer:
        write_open(producer, b"open", topic="in")
        write(log, b"b")
        levels = ("committed", "uncommitted")
        streams = [
            stream(spark, log, isolationLevel=f"read_{level}").selectExpr(f"'{level}' AS level", "value")
            for level in levels
        ]
        rows = Rows("level", "CAST(value AS STRING)")

        with running(reduce(DataFrame.union, streams), rows, tmp_path / "ck") as query:
            before = sorted(map(tuple, rows.all()))
            producer.commit_transaction()
            query.processAllAvailable()

    uncommitted = [("uncommitted", value) for value in ("a", "aborted", "b", "open")]
    assert before == [("committed", "a"), *uncommitted]
    assert sorted(map(tuple, rows.all())) == [("committed", value) for value in ("a", "b", "open")] + uncommitted


def test_aborted_rows_do_not_show_wherever_a_query_begins_and_however_they_are_compressed(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """conformance: 38, 39, 41."""
    for codec in ("null", "lz4", "zstd"):
        with started(log, "one", codec=codec) as producer:
            producer.begin_transaction()
            send(producer, b"no-0", b"no-1", topic="in")
            send(producer, b"no-2", topic="in")
            producer.abort_transaction()
            write_committed(producer, codec.encode(), topic="in")
    streams = [stream(spark, log, startingOffsets=f'{{"in":{{"0":{at},"1":0}}}}') for at in (1, 2)]

    rows = read_available(reduce(DataFrame.union, streams), tmp_path / "ck")

    assert rows.values() == sorted([b"null", b"lz4", b"zstd"] * 2)


def test_what_shows_no_rows_is_passed_and_is_no_loss(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """conformance: 40."""
    abort(log, *numbered("no", 3))
    log.admin.settle()  # the marker ends the partition

    first = read_available(stream(spark, log), tmp_path / "ck")
    passed = last_batch(tmp_path / "ck")
    again = read_available(stream(spark, log), tmp_path / "ck")
    write(log, b"a")
    last = read_available(stream(spark, log), tmp_path / "ck")

    assert (first.all(), again.all(), last.values()) == ([], [], [b"a"])
    assert last_batch(tmp_path / "ck") > passed


# Which partitions -----------------------------------------------------------------------------------------------------


def test_a_pattern_finds_topics_that_come_later_and_reads_them_from_their_beginning(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    write(log, b"a")
    write(log, b"other", topic="out")
    rows = Rows()

    with running(stream(spark, log, None, subscribePattern="in.*"), rows, tmp_path / "ck") as query:
        log.create_topic("in-2")
        write(log, b"b", b"c", topic="in-2")
        query.processAllAvailable()

    assert rows.values() == [b"a", b"b", b"c"]


def test_assigned_partitions_are_read_and_no_others(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    write(log, b"a", number=0)
    write(log, b"b", number=1)

    rows = read_available(stream(spark, log, None, assign='{"in":[1]}'), tmp_path / "ck")

    assert rows.values() == [b"b"]


# How much at once -----------------------------------------------------------------------------------------------------


@pytest.mark.every_spark
def test_a_batch_has_no_more_rows_than_asked_and_what_shows_no_rows_costs_none(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    for at in range(3):
        abort(log, *numbered("no", 4))
        write(log, *numbered(f"{at}", 4))
    limited = stream(spark, log, None, assign='{"in":[0]}', maxOffsetsPerTrigger=5)

    rows = read_available(limited, tmp_path / "ck")

    assert [len(batch) for batch in rows.batches.values() if batch] == [5, 5, 2]
    assert [row.value for row in rows.all()] == [value for at in range(3) for value in numbered(f"{at}", 4)]


def test_the_rows_of_a_batch_are_shared_out_among_the_partitions(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    write(log, *numbered("a", 9), number=0)
    write(log, *numbered("b", 3), number=1)

    rows = read_available(stream(spark, log, maxOffsetsPerTrigger=4), tmp_path / "ck")

    sizes = [len(batch) for batch in rows.batches.values() if batch]
    assert max(sizes) <= 4
    assert {bytes(row.value[:1]) for row in rows.batches[1]} == {b"a", b"b"}
    assert rows.values() == sorted([*numbered("a", 9), *numbered("b", 3)])


def test_a_batch_waits_for_its_least_rows(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    patient = stream(spark, log, minOffsetsPerTrigger=4, maxTriggerDelay="1d")
    rows = Rows()

    with running(patient, rows, tmp_path / "ck") as query:
        write(log, *numbered("a", 3))
        query.processAllAvailable()
        before = rows.values()
        write(log, b"b", number=1)
        query.processAllAvailable()

    assert before == []
    assert [len(batch) for batch in rows.batches.values()] == [0, 4]
    write(log, b"last")
    patient.writeStream.foreachBatch(rows).trigger(once=True).option(
        "checkpointLocation", str(tmp_path / "ck")
    ).start().awaitTermination()
    assert len(rows.batches[2]) == 1, "Trigger.Once waits for nobody"


def test_a_batch_waits_no_longer_than_its_delay(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    hasty = stream(spark, log, minOffsetsPerTrigger=4, maxTriggerDelay="100ms")
    rows = Rows()

    with running(hasty, rows, tmp_path / "ck") as query:
        write(log, *numbered("a", 3))
        until(rows.values)
        query.processAllAvailable()

    assert rows.values() == numbered("a", 3)


def test_a_query_for_what_is_available_ends_while_writers_go_on(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    write(log, *numbered("a", 6))
    rows = Rows()
    first = stream(spark, log, maxOffsetsPerTrigger=2)

    def write_more(df: DataFrame, batch_id: int) -> None:
        rows(df, batch_id)
        write(log, b"later-%d" % batch_id)

    run_available(first.writeStream.foreachBatch(write_more), tmp_path / "ck")
    rest = read_available(stream(spark, log), tmp_path / "ck")

    assert rows.values() == numbered("a", 6)
    assert [len(batch) for batch in rows.batches.values()] == [0, 2, 2, 2]
    assert rest.values() == [b"later-%d" % batch_id for batch_id in rows.batches]


# What is gone ---------------------------------------------------------------------------------------------------------


def lose_records(log: Log, tmp_path: Path, spark: SparkSession) -> None:
    """Read offset 0; then let retention take offset 1 before the query comes to it."""
    write(log, b"read")
    read_available(stream(spark, log), tmp_path / "ck")
    write(log, b"lost")
    log.admin.settle()
    bound = state(log, 0, "in").log_end
    log.admin.delete_records({tp(0, "in"): bound})
    write(log, b"kept")


def test_records_that_retention_took_are_an_error_that_names_them(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    lose_records(log, tmp_path, spark)

    with pytest.raises(StreamingQueryException) as caught:
        read_available(stream(spark, log), tmp_path / "ck")

    text = str(caught.value)
    assert "records that were still to be read are gone" in text
    assert "failOnDataLoss=false" in text
    assert f"topic='in', partition=0, wanted_offset=1, log_start={state(log, 0, 'in').log_start}" in text


def test_without_fail_on_data_loss_a_query_goes_on_behind_the_gap(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    lose_records(log, tmp_path, spark)

    rows = read_available(stream(spark, log, failOnDataLoss=False), tmp_path / "ck")

    assert rows.values() == [b"kept"]


def test_a_topic_that_was_created_anew_is_an_error_or_is_read_from_its_beginning(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    write(log, b"old", b"old")
    read_available(stream(spark, log), tmp_path / "ck")
    log.admin.delete_topic("in")
    log.create_topic("in", partitions=2)
    write(log, b"new")

    with pytest.raises(StreamingQueryException, match="a topic was deleted since the query read it"):
        read_available(stream(spark, log), tmp_path / "ck")
    rows = read_available(stream(spark, log, failOnDataLoss=False), tmp_path / "ck")

    assert rows.values() == [b"new"]


@pytest.mark.sampled("streams of a log")
@pytest.mark.parametrize("named", [{"subscribe": "in,in-2"}, {"subscribePattern": "in.*"}], ids=["name", "pattern"])
def test_a_deleted_topic_is_an_error_or_is_left_out(
    spark: SparkSession, log: Log, tmp_path: Path, named: dict[str, str]
) -> None:
    log.create_topic("in-2")
    write(log, b"old", topic="in-2")
    read_available(stream(spark, log, None, **named), tmp_path / "ck")
    log.admin.delete_topic("in-2")
    write(log, b"a")

    with pytest.raises(StreamingQueryException, match="a topic was deleted since the query read it"):
        read_available(stream(spark, log, None, **named), tmp_path / "ck")
    rows = read_available(stream(spark, log, None, **named, failOnDataLoss=False), tmp_path / "ck")

    assert rows.values() == [b"a"]


# Its progress, seen from outside --------------------------------------------------------------------------------------


def latest_offset(query: StreamingQuery, log: Log) -> int | None:
    """Where the first partition ended when the query planned its last batch."""
    progress = query.lastProgress
    assert progress is not None
    planned = json.loads(progress.json)["sources"][0]["latestOffset"]
    return parse_offset(planned).offset_of(partition(log, 0, "in"))


def test_a_group_shows_how_far_a_query_is_one_batch_late(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """Spark tells a source of a batch's end with the batch after it."""
    write(log, *numbered("a", 3))
    rows = Rows()

    with running(stream(spark, log, groupId="g"), rows, tmp_path / "ck") as query:
        write(log, *numbered("b", 3))
        until(lambda: latest_offset(query, log) == lso(log, 0, "in"))  # a marker may come after the batch
        query.processAllAvailable()

    last = last_batch(tmp_path / "ck")
    start, end = (logged_offsets(tmp_path / "ck", batch, "in") for batch in (last - 1, last))
    progress = {found.partition: found for found in log.admin.describe_group("g").partitions}
    assert 0 < start[0] < end[0]
    assert {number: found.offset for number, found in progress.items()} == start
    behind = lso(log, 0, "in") - start[0]
    assert progress[0].lag == (behind if rows.batches[last] else 0)  # a batch of markers alone leaves nothing to read
