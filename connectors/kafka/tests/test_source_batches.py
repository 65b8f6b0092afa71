"""Batch reads: columns, subscriptions, positions, and how a read is split."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from reads import Source, texts
from tests.support.connectors.kafka_sink import wait_for_markers
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, send

pytestmark = pytest.mark.sampled("batches out of Kafka")


@pytest.fixture
def source(spark: SparkSession, kafka: KafkaBroker, topic: str) -> Source:
    return Source(spark, kafka, subscribe=topic)


# Columns --------------------------------------------------------------------------------------------------------------


def test_columns_are_those_of_sparks_kafka_source(source: Source) -> None:
    assert source.batch().dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert source.batch(includeHeaders=True).dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")


def test_every_column_holds_what_was_sent(source: Source, kafka: KafkaBroker, topic: str) -> None:
    time_ms = 1_700_000_000_123
    headers: list[list[tuple[str, str | bytes | None]]] = [[("a", b"1"), ("b", None)], [], [("c", b"")]]
    send(kafka, topic, "x", None, "z", keys=["k", None], headers=headers, timestamps_ms=[time_ms], partition=1)
    first, second, third = source.batch(includeHeaders=True).orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"x")
    assert (first.topic, first.partition, first.offset) == (topic, 1, 0)
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(time_ms / 1000, UTC)
    assert first.timestampType == 0
    assert [(header.key, header.value) for header in first.headers] == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, second.headers, second.offset) == (None, None, None, 1)
    assert [(h.key, bytes(h.value)) for h in third.headers] == [("c", b"")]


def test_a_field_of_the_headers_can_be_taken_alone(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "x", headers=[[("a", b"1"), ("b", None)]])

    (row,) = source.batch(includeHeaders=True).select("headers.key", "headers.value").collect()
    (alone,) = source.batch(includeHeaders=True).select("headers.value").collect()

    assert (row.key, row.value, alone.value) == (["a", "b"], [b"1", None], [b"1", None])


def test_log_append_time_shows_as_timestamp_type_1(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(fresh_name("append"), message_timestamp_type="LogAppendTime")
    send(kafka, topic, "x")
    assert Source(spark, kafka, subscribe=topic).batch().collect()[0].timestampType == 1


def test_a_timestamp_that_spark_cannot_hold_is_named_and_the_record_is_read_without_it(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(fresh_name("far"), retention_ms="-1", message_timestamp_after_max_ms=str(2**63 - 1))
    too_late_ms = 2**63 // 1000 + 1
    send(kafka, topic, "x", "y", timestamps_ms=[1000, too_late_ms])
    source = Source(spark, kafka, subscribe=topic)

    named = rf"timestamp of a record is beyond.*topic={topic}, partition=0, offset=1, timestamp={too_late_ms} ms"
    with pytest.raises(Exception, match=named):
        source.batch().where("timestamp is not null and value = 'y'").select("timestamp").collect()
    assert texts(source.batch().select("value", "topic", "partition", "offset").collect()) == ["x", "y"]


def test_columns_can_be_taken_in_any_choice_and_order(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "a", "b", keys=["k"])
    assert [tuple(row) for row in source.batch().select("offset", "topic").orderBy("offset").collect()] == [
        (0, topic),
        (1, topic),
    ]
    assert source.batch().count() == 2
    assert source.batch().where("key is null").selectExpr("string(value)").collect()[0][0] == "b"


def test_rows_of_many_polls_come_whole_and_in_order(source: Source, kafka: KafkaBroker, topic: str) -> None:
    sent = [str(number) for number in range(20_000)]
    send(kafka, topic, *sent)
    assert source.values() == sent
    small = {"kafka.max.poll.records": 7, "kafka.max.partition.fetch.bytes": 1_000}
    assert source.values(endingOffsets=offsets(topic, 500, 0), **small) == sent[:500]


# What is read ---------------------------------------------------------------------------------------------------------


def test_subscribe_reads_all_partitions_of_the_topics(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    other = kafka.create_topic(fresh_name("other"))
    send(kafka, topic, "a", partition=0)
    send(kafka, topic, "b", partition=1)
    send(kafka, other, "c")
    assert sorted(Source(spark, kafka, subscribe=f" {topic} ,{other}").values()) == ["a", "b", "c"]


def test_subscribe_pattern_reads_topics_whose_whole_name_matches(spark: SparkSession, kafka: KafkaBroker) -> None:
    stem = fresh_name("pattern")
    for name in (f"{stem}-a", f"{stem}-b", f"{stem}-a-not"):
        kafka.create_topic(name)
        send(kafka, name, name)
    assert Source(spark, kafka, subscribePattern=f"{stem}-[ab]").values() == [f"{stem}-a", f"{stem}-b"]


def test_assign_reads_the_named_partitions_only(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "a", partition=0)
    send(kafka, topic, "b", partition=1)
    assert Source(spark, kafka, assign=json.dumps({topic: [1]})).values() == ["b"]


def test_empty_topic_reads_as_no_rows(source: Source) -> None:
    assert source.batch().collect() == []


# Where a read starts and ends -----------------------------------------------------------------------------------------


def offsets(topic: str, first: int, second: int) -> str:
    return json.dumps({topic: {"0": first, "1": second}})


def test_offsets_bound_a_read_and_stand_ins_mean_the_ends(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "a0", "a1", "a2", partition=0)
    send(kafka, topic, "b0", "b1", partition=1)
    assert source.values(startingOffsets=offsets(topic, 1, -2)) == ["a1", "a2", "b0", "b1"]
    assert source.values(endingOffsets=offsets(topic, 2, 0)) == ["a0", "a1"]
    assert source.values(startingOffsets=offsets(topic, 1, 1), endingOffsets=offsets(topic, 2, -1)) == ["a1", "b1"]
    assert source.values(startingOffsets="earliest", endingOffsets="latest") == ["a0", "a1", "a2", "b0", "b1"]


def test_times_bound_a_read(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "a1", "a2", "a3", timestamps_ms=[1000, 2000, 3000], partition=0)
    send(kafka, topic, "b2", "b3", timestamps_ms=[2000, 3000], partition=1)
    assert source.values(startingTimestamp=2000) == ["a2", "a3", "b2", "b3"]
    assert source.values(startingTimestamp=2000, endingTimestamp=3000) == ["a2", "b2"]
    assert source.values(startingOffsetsByTimestamp=offsets(topic, 3000, 1)) == ["a3", "b2", "b3"]
    assert source.values(endingOffsetsByTimestamp=offsets(topic, 2000, 9999)) == ["a1", "b2", "b3"]
    assert source.values(startingTimestamp=3000, startingOffsets=offsets(topic, 0, 0)) == ["a3", "b3"]


def test_time_after_the_last_record_is_an_error_or_the_end_as_the_strategy_says(
    source: Source, kafka: KafkaBroker, topic: str
) -> None:
    send(kafka, topic, "a", timestamps_ms=[1000], partition=0)
    send(kafka, topic, "b", timestamps_ms=[9000], partition=1)
    with pytest.raises(Exception, match=r"no record at or after the time.*startingOffsetsByTimestampStrategy"):
        source.values(startingTimestamp=5000)
    assert source.values(startingTimestamp=5000, startingOffsetsByTimestampStrategy="latest") == ["b"]


# What is planned once -------------------------------------------------------------------------------------------------


def test_a_dataframe_reads_what_its_first_action_planned_and_one_derived_from_it_what_is_there(
    source: Source, kafka: KafkaBroker, topic: str
) -> None:
    send(kafka, topic, "a", "b")
    rows = source.batch()
    assert texts(rows.collect()) == ["a", "b"]
    send(kafka, topic, "c")
    assert texts(rows.collect()) == ["a", "b"]
    assert texts(rows.where("true").collect()) == ["a", "b", "c"]
    assert rows.count() == 3

    kafka.delete_records(topic, 0, before=1)
    with pytest.raises(Exception, match=rf"no longer has a planned offset.*topic={topic}, partition=0, offset=0"):
        rows.collect()
    assert texts(rows.where("true").collect()) == ["b", "c"]


# Transactions ---------------------------------------------------------------------------------------------------------


def test_aborted_and_open_transactions_are_not_read(source: Source, kafka: KafkaBroker, topic: str) -> None:
    """conformance: 36, 37, 42"""
    Transaction(kafka).send(topic, "a").commit()
    Transaction(kafka).send(topic, "lost").abort()
    Transaction(kafka).send(topic, "b").commit()
    held = Transaction(kafka).send(topic, "open")
    Transaction(kafka).send(topic, "behind it").commit()
    assert source.values() == ["a", "b"]
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert source.values(**uncommitted) == ["a", "lost", "b", "open", "behind it"]
    held.commit()
    assert source.values() == ["a", "b", "open", "behind it"]


def test_a_time_ends_at_an_open_transaction_and_a_named_offset_behind_it_is_waited_for(
    source: Source, kafka: KafkaBroker, topic: str
) -> None:
    """conformance: 37"""
    Transaction(kafka).send(topic, "a").commit()
    held = Transaction(kafka).send(topic, "open")
    time.sleep(0.01)
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.01)
    held.send(topic, "open too")

    assert source.values(endingTimestamp=between_ms) == ["a"]
    with pytest.raises(Exception, match="no open transaction holds the range back"):
        source.values(endingOffsets=offsets(topic, 3, 0), **{"kafkaConsumer.pollTimeoutMs": 3_000})

    held.commit()
    assert source.values(endingOffsets=offsets(topic, 3, 0)) == ["a", "open"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_change_nothing_in_committed_and_aborted_transactions(
    source: Source, kafka: KafkaBroker, topic: str, codec: str
) -> None:
    """conformance: 41"""
    sent = [f"value {number}" for number in range(200)]
    Transaction(kafka, compression_type=codec).send(topic, *sent).commit()
    Transaction(kafka, compression_type=codec).send(topic, *["lost"] * 200).abort()
    Transaction(kafka, compression_type=codec).send(topic, "last").commit()
    assert source.values() == [*sent, "last"]


def test_brokers_with_transactions_of_version_1_are_read_alike(spark: SparkSession, kafka_tv1: KafkaBroker) -> None:
    topic = kafka_tv1.create_topic(fresh_name("tv1"))
    source = Source(spark, kafka_tv1, subscribe=topic)
    transaction = Transaction(kafka_tv1).send(topic, "a")
    transaction.commit()
    transaction.begin_again().send(topic, "lost").abort()
    transaction.begin_again().send(topic, "b").commit()
    wait_for_markers(kafka_tv1)
    held = Transaction(kafka_tv1).send(topic, "held")

    assert source.values() == ["a", "b"]
    assert source.values(**{"kafka.isolation.level": "read_uncommitted"}) == ["a", "lost", "b", "held"]
    held.commit()
    wait_for_markers(kafka_tv1)
    assert source.values() == ["a", "b", "held"]


def test_read_that_starts_inside_an_aborted_transaction_still_leaves_it_out(
    source: Source, kafka: KafkaBroker, topic: str
) -> None:
    """conformance: 38"""
    Transaction(kafka).send(topic, "lost").send(topic, "lost too").send(topic, "lost three").abort()
    Transaction(kafka).send(topic, "a").commit()
    assert source.values(startingOffsets=offsets(topic, 1, 0)) == ["a"]
    assert source.values(startingOffsets=offsets(topic, 1, 0), endingOffsets=offsets(topic, 2, 0)) == []


def test_range_that_ends_on_a_marker_or_holds_aborted_records_only_reads_nothing(
    source: Source, kafka: KafkaBroker, topic: str
) -> None:
    """conformance: 40"""
    Transaction(kafka).send(topic, "a").commit()
    Transaction(kafka).send(topic, "lost", "lost").abort()
    assert source.values(endingOffsets=offsets(topic, 2, 0)) == ["a"]
    assert source.values(startingOffsets=offsets(topic, 1, 0)) == []
    assert source.values(startingOffsets=offsets(topic, 2, 0), endingOffsets=offsets(topic, 4, 0)) == []


def test_same_producer_may_abort_and_commit_in_turn(source: Source, kafka: KafkaBroker, topic: str) -> None:
    """conformance: 39"""
    turn = Transaction(kafka).send(topic, "lost")
    turn.abort()
    turn.begin_again().send(topic, "a").commit()
    turn.begin_again().send(topic, "lost").abort()
    turn.begin_again().send(topic, "b").commit()
    assert source.values() == ["a", "b"]
    assert source.values(**{"kafka.max.partition.fetch.bytes": 1}) == ["a", "b"]


# How a read is split --------------------------------------------------------------------------------------------------


def test_min_partitions_splits_the_bigger_ranges(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, *[str(n) for n in range(90)], partition=0)
    send(kafka, topic, *[str(n) for n in range(10)], partition=1)
    assert source.batch().rdd.getNumPartitions() == 2
    split = source.batch(minPartitions=10)
    assert split.rdd.getNumPartitions() == 10
    assert len(set(texts(split.where("partition = 0").collect()))) == 90


def test_max_records_per_partition_bounds_every_range(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, *[str(n) for n in range(95)], partition=0)
    split = source.batch(maxRecordsPerPartition=10)
    assert split.rdd.getNumPartitions() == 10
    assert sorted(texts(split.collect()), key=int) == [str(n) for n in range(95)]


# What is gone ---------------------------------------------------------------------------------------------------------


def test_start_before_the_logs_start_is_loss_of_data(source: Source, kafka: KafkaBroker, topic: str) -> None:
    send(kafka, topic, "a", "b", "c")
    kafka.delete_records(topic, 0, before=2)
    with pytest.raises(Exception, match=r"log begins after .*partition=0, offset=1, log start=2.*failOnDataLoss"):
        source.values(startingOffsets=offsets(topic, 1, 0))
    assert source.values(startingOffsets=offsets(topic, 1, 0), failOnDataLoss=False) == ["c"]
    assert source.values(startingOffsets="earliest") == ["c"]
