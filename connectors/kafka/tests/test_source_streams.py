"""Streams: what a batch holds, what a restart goes on with, and what stops a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from reads import EARLIEST, WITHIN_S, Source, create_again, flat, write_sparks_checkpoint
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, running_broker, send


@pytest.fixture
def source(spark: SparkSession, kafka: KafkaBroker, topic: str) -> Source:
    return Source(spark, kafka, subscribe=topic)


# read_committed -------------------------------------------------------------------------------------------------------


@pytest.mark.every_spark(java=True)
def test_stream_shows_committed_transactions_once_and_aborted_ones_never(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    """conformance: 36, 40, 42"""
    with source.running(checkpoint, **EARLIEST) as (query, batches):
        for number in range(3):
            Transaction(kafka).send(topic, f"a{number}").send(topic, f"b{number}", partition=1).commit()
            Transaction(kafka).send(topic, "lost").send(topic, "lost", partition=1).abort()
            query.processAllAvailable()
    assert sorted(flat(batches)) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_stream_follows_a_broker_with_transactions_of_version_1(
    spark: SparkSession, kafka_tv1: KafkaBroker, checkpoint: Path
) -> None:
    topic = kafka_tv1.create_topic(fresh_name("tv1"), partitions=2)
    source = Source(spark, kafka_tv1, subscribe=topic, groupId=f"{topic}.g")
    held = Transaction(kafka_tv1).send(topic, "held")
    with source.running(checkpoint, **EARLIEST) as (query, batches):
        for number in range(2):
            Transaction(kafka_tv1).send(topic, f"a{number}", partition=1).commit()
            Transaction(kafka_tv1).send(topic, "lost", partition=1).abort()
            query.processAllAvailable()
        assert flat(batches) == ["a0", "a1"]
        send(kafka_tv1, topic, "more", partition=1)
        until(lambda: _metric(query, "openTransactions", "").startswith(held.transactional_id))
        held.commit()
        until(lambda: "held" in flat(batches))


def test_open_transaction_holds_back_what_is_committed_behind_it(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    """conformance: 27, 37"""
    Transaction(kafka).send(topic, "before").commit()
    held = Transaction(kafka).send(topic, "held")
    Transaction(kafka).send(topic, "behind").commit()
    assert flat(source.available(checkpoint, **EARLIEST)) == ["before"]
    assert source.available(checkpoint, **EARLIEST) == []
    held.commit()
    assert flat(source.available(checkpoint, **EARLIEST)) == ["held", "behind"]


@pytest.mark.sampled("streams of the source")
def test_query_names_who_holds_the_last_stable_offset(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    held = Transaction(kafka).send(topic, "held", "held")
    with source.running(checkpoint, **EARLIEST) as (query, _):
        send(kafka, topic, "free", partition=1)
        until(lambda: _metric(query, "openTransactions", "").startswith(held.transactional_id))
        assert f"holds {topic}-0 at 0" in _metric(query, "openTransactions", "")
        assert _metric(query, "offsetsHeldByOpenTransactions", "") == "2"
        held.abort()
        send(kafka, topic, "free", partition=1)
        until(lambda: _metric(query, "offsetsHeldByOpenTransactions", "") == "0")
        assert _metric(query, "openTransactions", "none") == "none"


def _metric(query: StreamingQuery, name: str, otherwise: str) -> str:
    progress = query.lastProgress
    return progress.sources[0].metrics.get(name, otherwise) if progress else otherwise


def test_progress_counts_rows_and_not_offsets(source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path) -> None:
    Transaction(kafka).send(topic, "a", "b").commit()
    Transaction(kafka).send(topic, "lost", "lost", "lost").abort()
    with source.running(checkpoint, **EARLIEST) as (query, _):
        query.processAllAvailable()
        assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [2]
        metrics = next(p.sources[0].metrics for p in query.recentProgress if p.numInputRows)
    assert {name: metrics[name] for name in metrics if name.endswith("BehindLatest")} == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "0",
        "avgOffsetsBehindLatest": "0.0",
    }


# How much goes into a batch -------------------------------------------------------------------------------------------


def test_max_offsets_per_trigger_bounds_batches_over_markers_and_aborted_records(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    """conformance: 40"""
    for number in range(4):
        Transaction(kafka).send(topic, f"{number}").commit()
        Transaction(kafka).send(topic, "lost").abort()
    batches = source.available(checkpoint, maxOffsetsPerTrigger=3, **EARLIEST)
    assert flat(batches) == ["0", "1", "2", "3"]
    assert len(batches) == 6  # of 16 offsets: rows, markers and what was aborted


def test_max_offsets_per_trigger_is_never_exceeded_and_starves_no_partition(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, *["many"] * 95, partition=0)
    send(kafka, topic, *["few"] * 5, partition=1)
    batches = source.available(checkpoint, maxOffsetsPerTrigger=10, **EARLIEST)
    assert [len(batch) for batch in batches] == [10] * 10
    assert all("few" in batch for batch in batches[:5])


@pytest.mark.sampled("streams of the source")
def test_no_partition_is_starved_though_a_batch_has_fewer_offsets_than_there_are_partitions(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    for number in (0, 1):
        send(kafka, topic, *[f"p{number}"] * 15, partition=number)
    batches = source.available(checkpoint, maxOffsetsPerTrigger=1, **EARLIEST)

    assert [len(batch) for batch in batches] == [1] * 30
    assert set(flat(batches[:15])) == {"p0", "p1"}


def test_min_offsets_per_trigger_waits_for_enough_or_for_the_delay(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    limits: dict[str, Any] = {"minOffsetsPerTrigger": 3, "maxTriggerDelay": "1h", "startingOffsets": "earliest"}
    send(kafka, topic, "first")
    with source.running(checkpoint, **limits) as (query, batches):
        until(lambda: flat(batches) == ["first"])  # nothing was triggered before: the delay is long over
        send(kafka, topic, "a", "b")
        query.processAllAvailable()
        assert flat(batches) == ["first"]
        send(kafka, topic, "c")
        until(lambda: flat(batches) == ["first", "a", "b", "c"])
        query.processAllAvailable()  # the batch is in the checkpoint too
    send(kafka, topic, "d")
    assert flat(source.available(checkpoint, **limits)) == ["d"]


@pytest.mark.every_spark
def test_available_now_reads_what_was_there_at_its_start(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, *[str(n) for n in range(10)])
    with source.running(checkpoint, available_now=True, maxOffsetsPerTrigger=2, **EARLIEST) as (query, batches):
        until(lambda: batches)
        send(kafka, topic, "late")
        assert query.awaitTermination(WITHIN_S)
    assert flat(batches) == [str(n) for n in range(10)]
    assert flat(source.available(checkpoint, **EARLIEST)) == ["late"]


# Starts and restarts --------------------------------------------------------------------------------------------------


def test_latest_is_the_default_start_and_kept_over_a_crash_in_the_first_batch(
    spark: SparkSession, source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, "old")

    def crash(_rows: object, _number: int) -> None:
        raise RuntimeError("crash")

    writer = source.stream().writeStream.foreachBatch(crash).option("checkpointLocation", str(checkpoint))
    query = writer.start()
    until((checkpoint / "sources" / "0" / "0").exists)
    send(kafka, topic, "new")
    with pytest.raises(StreamingQueryException, match="crash"):
        query.awaitTermination(60)
    send(kafka, topic, "newer")
    assert flat(source.available(checkpoint)) == ["new", "newer"]


def test_restart_goes_on_after_the_last_batch(source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path) -> None:
    Transaction(kafka).send(topic, "a").commit()
    assert flat(source.available(checkpoint, **EARLIEST)) == ["a"]
    Transaction(kafka).send(topic, "lost").abort()
    Transaction(kafka).send(topic, "b").commit()
    assert flat(source.available(checkpoint, **EARLIEST)) == ["b"]
    assert source.available(checkpoint, **EARLIEST) == []


def test_checkpoint_of_sparks_own_source_is_gone_on_with(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, "a", "b", "c")
    write_sparks_checkpoint(checkpoint, {topic: {"0": 0, "1": 0}}, {topic: {"1": 0, "0": 2}})
    assert flat(source.available(checkpoint, **EARLIEST)) == ["c"]


def test_a_checkpoint_of_sparks_source_with_its_topics_in_another_order_has_at_most_one_batch_without_rows(
    spark: SparkSession, kafka: KafkaBroker, checkpoint: Path
) -> None:
    first, second = sorted(kafka.create_topic(fresh_name("moved")) for _ in range(2))
    for name in (first, second):
        send(kafka, name, "old")
    offsets = {second: {"0": 1}, first: {"0": 1}}
    write_sparks_checkpoint(checkpoint, offsets, offsets)
    source = Source(spark, kafka, subscribe=f"{first},{second}")

    assert source.available(checkpoint, **EARLIEST) == [[]]
    assert source.available(checkpoint, **EARLIEST) == []


def test_initial_offsets_that_spark_2_1_0_wrote_are_where_the_query_starts(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    """Their first byte is of the text's length; later versions of Spark write a zero byte and a version there."""
    send(kafka, topic, "a", "b", "c")
    offsets = json.dumps({topic: {"1": 0, "0": 2}}).encode()
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_bytes(bytes([len(offsets)]) + offsets)

    assert flat(source.available(checkpoint, **EARLIEST)) == ["c"]


def test_start_at_offsets_and_at_times(source: Source, kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    send(kafka, topic, "a", "b", "c", timestamps_ms=[1000, 2000, 3000])
    at_offsets = json.dumps({topic: {"0": 1, "1": -1}})
    assert flat(source.available(tmp_path / "1", startingOffsets=at_offsets)) == ["b", "c"]
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert flat(source.available(tmp_path / "2", startingTimestamp=3000, **latest)) == ["c"]


def test_new_partitions_and_topics_are_read_from_their_start(
    spark: SparkSession, kafka: KafkaBroker, checkpoint: Path
) -> None:
    stem = fresh_name("growing")
    kafka.create_topic(f"{stem}-a")
    source = Source(spark, kafka, subscribePattern=f"{stem}-.*")
    send(kafka, f"{stem}-a", "old")
    assert flat(source.available(checkpoint)) == []
    kafka.create_partitions(f"{stem}-a", 2)
    kafka.create_topic(f"{stem}-b")
    send(kafka, f"{stem}-a", "new partition", partition=1)
    send(kafka, f"{stem}-b", "new topic")
    assert flat(source.available(checkpoint)) == ["new partition", "new topic"]


def test_pattern_without_a_topic_yet_waits_for_one(spark: SparkSession, kafka: KafkaBroker, checkpoint: Path) -> None:
    name = fresh_name("later")
    source = Source(spark, kafka, subscribePattern=name)
    assert flat(source.available(checkpoint)) == []
    kafka.create_topic(name)
    send(kafka, name, "a")
    assert flat(source.available(checkpoint)) == ["a"]


@pytest.mark.sampled("streams of the source")
def test_poll_beyond_a_range_is_kept_for_the_next_batch_and_lost_by_none(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    sent = [str(n) for n in range(1000)]
    send(kafka, topic, *sent)
    assert flat(source.available(checkpoint, maxOffsetsPerTrigger=77, **EARLIEST)) == sent


# Groups ---------------------------------------------------------------------------------------------------------------


def test_group_id_shows_the_querys_progress_to_lag_tools(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    group = fresh_name("group")
    with source.running(checkpoint, groupId=group, **EARLIEST) as (query, _):
        send(kafka, topic, "a", "b")
        query.processAllAvailable()
        send(kafka, topic, "c")  # the commit of a batch comes with the next one
        query.processAllAvailable()
        until(lambda: kafka.group_offsets(group).get((topic, 0), 0) >= 2)


def test_progress_leaves_offsets_alone_that_another_commits_with_metadata(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    group = fresh_name("group")
    kafka.commit_group_offset(group, topic, 0, offset=100, metadata="a sink's")
    with source.running(checkpoint, groupId=group, **EARLIEST) as (query, _):
        for value in ("a", "b", "c"):
            send(kafka, topic, value, partition=0)
            send(kafka, topic, value, partition=1)
            query.processAllAvailable()
        until(lambda: kafka.group_offsets(group).get((topic, 1), 0) >= 1)
    assert kafka.group_offsets(group)[topic, 0] == 100


def test_starting_offsets_group_starts_where_the_group_is_and_elsewhere_at_the_earliest(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    group = fresh_name("group")
    send(kafka, topic, "a0", "a1", partition=0)
    send(kafka, topic, "b0", partition=1)
    kafka.commit_group_offset(group, topic, 0, offset=1)
    assert flat(source.available(checkpoint, startingOffsets="group", groupId=group)) == ["a1", "b0"]


# Loss of data ---------------------------------------------------------------------------------------------------------


def test_moved_log_start_is_loss_of_data_and_skipped_only_when_told(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, "a")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["a"]
    send(kafka, topic, "b", "c", "d")
    kafka.delete_records(topic, 0, before=3)
    with pytest.raises(StreamingQueryException, match=r"log begins after .*partition=0, offset=1, log start=3"):
        source.available(checkpoint, **EARLIEST)
    assert flat(source.available(checkpoint, failOnDataLoss=False, **EARLIEST)) == ["d"]


def test_records_deleted_behind_the_reader_are_no_loss(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, "a", "b")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["a", "b"]
    kafka.delete_records(topic, 0, before=2)
    send(kafka, topic, "c")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["c"]


def test_recreated_topic_is_loss_of_data_also_when_it_is_longer_than_before(
    spark: SparkSession, kafka: KafkaBroker, checkpoint: Path
) -> None:
    name = kafka.create_topic(fresh_name("recreated"))
    source = Source(spark, kafka, subscribe=name)
    send(kafka, name, "a")
    assert flat(source.available(checkpoint, **EARLIEST)) == ["a"]
    create_again(kafka, name, "new 0", "new 1", "new 2")
    with pytest.raises(StreamingQueryException, match=rf"deleted and created again.*topic={name}"):
        source.available(checkpoint, **EARLIEST)
    told = {"failOnDataLoss": False, **EARLIEST}
    assert flat(source.available(checkpoint, **told)) == ["new 0", "new 1", "new 2"]
    send(kafka, name, "new 3")
    assert flat(source.available(checkpoint, **told)) == ["new 3"]


def test_deleted_topic_is_loss_of_data_and_left_out_only_when_told(
    spark: SparkSession, kafka: KafkaBroker, checkpoint: Path
) -> None:
    stem = fresh_name("deleted")
    for name in (f"{stem}-a", f"{stem}-b"):
        kafka.create_topic(name)
        send(kafka, name, name)
    source = Source(spark, kafka, subscribe=f"{stem}-a,{stem}-b")
    assert flat(source.available(checkpoint, **EARLIEST)) == [f"{stem}-a", f"{stem}-b"]
    kafka.delete_topic(f"{stem}-a")
    send(kafka, f"{stem}-b", "after")
    with pytest.raises(StreamingQueryException, match=rf"topic of the query is gone.*topic={stem}-a"):
        source.available(checkpoint, **EARLIEST)
    assert flat(source.available(checkpoint, failOnDataLoss=False, **EARLIEST)) == ["after"]


def test_log_that_lost_its_end_is_loss_of_data(
    source: Source, kafka: KafkaBroker, topic: str, checkpoint: Path
) -> None:
    send(kafka, topic, "a")
    write_sparks_checkpoint(checkpoint, {topic: {"0": 0, "1": 0}}, {topic: {"0": 7, "1": 0}})
    quick = {"fetchOffset.retryIntervalMs": 10, **EARLIEST}
    with pytest.raises(StreamingQueryException, match=r"log ends before .*partition=0, offset=7, log end=1"):
        source.available(checkpoint, **quick)


# A broker's absence ---------------------------------------------------------------------------------------------------


def test_query_lives_through_a_killed_and_restarted_broker(spark: SparkSession, tmp_path: Path) -> None:
    """conformance: 60"""
    with running_broker(tmp_path / "broker") as broker:
        name = broker.create_topic("t")
        source = Source(spark, broker, subscribe=name)
        with source.running(tmp_path / "checkpoint", **EARLIEST) as (query, batches):
            send(broker, name, "a")
            query.processAllAvailable()
            broker.restart()
            send(broker, name, "b")
            query.processAllAvailable()
            broker.pause()
            broker.resume()
            send(broker, name, "c")
            query.processAllAvailable()
    assert flat(batches) == ["a", "b", "c"]


@pytest.mark.sampled("streams of the source")
def test_query_without_a_broker_ends_with_its_address(spark: SparkSession, tmp_path: Path) -> None:
    """One that never reached a broker says so after a single try, of 30 seconds by default. conformance: 60"""
    quick: dict[str, Any] = {
        "kafka.default.api.timeout.ms": 8_000,  # of the broker that answers too, which other tests slow down
        "kafka.request.timeout.ms": 4_000,
        "fetchOffset.numRetries": 2,
    }
    with running_broker(tmp_path / "broker") as broker:
        source = Source(spark, broker, subscribe=broker.create_topic("t"))
        with source.running(tmp_path / "checkpoint", **quick) as (query, _):
            query.processAllAvailable()
            broker.stop()
            with pytest.raises(StreamingQueryException, match=rf"be looked up.*brokers={broker.address}, tries=2"):
                query.awaitTermination(WITHIN_S)
        with pytest.raises(StreamingQueryException, match=rf"no broker answers; check.*brokers={broker.address};"):
            source.available(tmp_path / "checkpoint", **quick)
