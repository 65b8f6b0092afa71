"""Options: every wrong one is an error that names it and what it should be, before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reads import EARLIEST, Source, warnings
from tests.support.connectors import kafka_sink
from tests.support.servers.kafka import KafkaBroker, fresh_name, send

pytestmark = pytest.mark.sampled

OFFSETS = json.dumps({"t": {"0": 1}})
BOTH = ("stream", "batch")


def attempt(source: Source, kind: str, folder: Path, **options: str | int | bool) -> None:
    if kind == "batch":
        source.batch(**options).collect()
    else:
        source.available(folder / "checkpoint", **options)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, r"unknown option.*option=startingOffset, nearest=startingOffsets"),
        ({"subscribe": " , "}, r"wrong value.*option=subscribe.*topic names"),
        ({"subscribePattern": "x"}, r"exactly one of subscribe, subscribePattern and assign.*given=2"),
        ({"startingOffsets": "first"}, r"wrong value.*expected JSON of the shape.*option=startingOffsets"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, r"wrong value.*option=startingOffsets.*no number below -2"),
        ({"startingOffsets": '{"t":{"0":1,"0":2}}'}, r"each topic and partition once"),
        ({"startingOffsets": '{"t":{"x":1}}'}, r"expected JSON of the shape"),
        ({"startingOffsets": "group"}, r"startingOffsets=group needs the option groupId.*missing=groupId"),
        ({"startingTimestamp": "yesterday"}, r"wrong value.*option=startingTimestamp.*whole number"),
        ({"startingOffsetsByTimestamp": "[]"}, r"expected JSON.*option=startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "x"}, r"option=startingOffsetsByTimestampStrategy.*error or latest"),
        ({"failOnDataLoss": "maybe"}, r"option=failOnDataLoss, found=maybe, expected=true or false"),
        ({"includeHeaders": "maybe"}, r"option=includeHeaders, found=maybe, expected=true or false"),
        ({"wholeBatches": "maybe"}, r"option=wholeBatches, found=maybe, expected=true or false"),
        ({"ledgerTopic": "x"}, r"only a read with wholeBatches=true reads the ledger.*option=ledgerTopic"),
        ({"znodes": "/x", "wholeBatches": "false"}, r"only a read with wholeBatches=true.*option=znodes"),
        ({"znodes": "/x", "ledgerTopic": "x", "wholeBatches": "true"}, r"give one of ledgerTopic and znodes"),
        (
            {"wholeBatches": "true", "kafka.isolation.level": "read_uncommitted"},
            r"wholeBatches=true needs committed rows.*option=kafka.isolation.level",
        ),
        ({"minPartitions": "0"}, r"option=minPartitions, found=0, expected=a whole number from 1 to"),
        ({"minPartitions": "2147483648"}, r"option=minPartitions, found=2147483648, expected=.*to 2147483647"),
        ({"fetchOffset.numRetries": "99999999999"}, r"option=fetchOffset.numRetries, found=99999999999"),
        ({"maxRecordsPerPartition": "-1"}, r"option=maxRecordsPerPartition, found=-1"),
        ({"maxOffsetsPerTrigger": 2**63}, rf"option=maxOffsetsPerTrigger, found={2**63}.*from 1 to {2**63 - 1}"),
        ({"maxOffsetsPerTrigger": "many"}, r"option=maxOffsetsPerTrigger, found=many"),
        ({"maxTriggerDelay": "soon"}, r"option=maxTriggerDelay, found=soon.*duration"),
        ({"maxTriggerDelay": "-5m"}, r"option=maxTriggerDelay, found=-5m.*duration"),
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 4}, r"minOffsetsPerTrigger is above maxOffsetsPerTrigger"),
        ({"groupId": " "}, r"option=groupId.*not empty"),
        ({"kafkaConsumer.pollTimeoutMs": "x"}, r"option=kafkaConsumer.pollTimeoutMs"),
        ({"kafka.isolation.level": "serial"}, r"option=kafka.isolation.level.*read_committed or read_uncommitted"),
        ({"kafka.auto.offset.reset": "latest"}, r"cannot be given.*startingOffsets.*kafka.auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, r"cannot be given.*kafka.key.deserializer"),
        ({"kafka.value.deserializer": "x"}, r"cannot be given.*kafka.value.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, r"cannot be given.*groupId.*kafka.enable.auto.commit"),
        ({"kafka.interceptor.classes": "x"}, r"cannot be given.*kafka.interceptor.classes"),
        ({"kafka.security.protocol": "MAGIC"}, r"setting of Kafka's client is wrong.*security.protocol"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/no/such/store"},
            r"setting of Kafka's client is wrong.*/no/such/store",
        ),
    ],
)
def test_wrong_option_is_named(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, kind: str, options: dict[str, str | int], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        attempt(Source(spark, kafka, subscribe="t"), kind, tmp_path, **options)


@pytest.mark.parametrize("kind", BOTH)
def test_a_wrong_option_is_refused_when_the_read_begins_and_not_by_load(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    source = Source(spark, kafka, subscribe=topic)
    assert source.batch(minPartitions="none").columns == source.stream(minPartitions="none").columns

    with pytest.raises(PySparkException, match="option=minPartitions, found=none"):
        attempt(source, kind, tmp_path, minPartitions="none")


@pytest.mark.parametrize("kind", BOTH)
def test_brokers_and_topics_must_be_named(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, kind: str) -> None:
    with pytest.raises(PySparkException, match=r"exactly one of subscribe, subscribePattern and assign.*given=0"):
        attempt(Source(spark, kafka), kind, tmp_path)
    nowhere = Source(spark, kafka, subscribe="t")
    del nowhere.options["kafka.bootstrap.servers"]
    with pytest.raises(PySparkException, match=r"brokers are not named.*kafka.bootstrap.servers"):
        attempt(nowhere, kind, tmp_path)


@pytest.mark.parametrize("kind", BOTH)
def test_missing_topics_and_partitions_are_named(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    missing = fresh_name("missing")
    with pytest.raises(PySparkException, match=rf"topic to read does not exist.*topic={missing}"):
        attempt(Source(spark, kafka, subscribe=f"{topic},{missing}"), kind, tmp_path)
    with pytest.raises(PySparkException, match=rf"partition to read does not exist.*{topic}-7, partitions of.*=2"):
        attempt(Source(spark, kafka, assign=json.dumps({topic: [0, 7]})), kind, tmp_path)


@pytest.mark.parametrize("kind", BOTH)
def test_offsets_must_name_every_partition_that_is_read(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(PySparkException, match=rf"must name every partition.*named=\[{topic}-0\], read=\[{topic}-0, "):
        attempt(Source(spark, kafka, subscribe=topic), kind, tmp_path, startingOffsets=json.dumps({topic: {"0": 0}}))


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_has_no_end(spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path, option: str) -> None:
    value = "5" if option == "endingTimestamp" else json.dumps({topic: {"0": 1, "1": 1}})
    with pytest.raises(PySparkException, match=rf"stream has no end.*option={option}"):
        attempt(Source(spark, kafka, subscribe=topic), "stream", tmp_path, **{option: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, r"option=startingOffsets.*batch would read nothing"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"option=startingOffsets.*batch would read nothing"),
        ({"endingOffsets": "earliest"}, r"option=endingOffsets.*latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"option=endingOffsets.*without -2"),
        ({"endingOffsets": "group", "groupId": "g"}, r"option=endingOffsets"),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'}, r"after its end.*start=5, end=4"),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":9}}'}, r"name different partitions"),
        ({"startingTimestamp": 9, "endingTimestamp": 8}, r"starts after its end.*start=9, end=8"),
    ],
)
def test_batch_needs_a_range(
    spark: SparkSession, kafka: KafkaBroker, options: dict[str, str | int], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        Source(spark, kafka, subscribe="t").batch(**options).collect()


def test_schema_is_the_sources_own(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    reader = spark.read.format("oncelog-kafka").options(**Source(spark, kafka, subscribe=topic).options)
    with pytest.raises(PySparkException, match="schema"):
        reader.schema("value string").load()


def test_options_of_sparks_source_are_taken(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    source = Source(
        spark,
        kafka,
        subscribe=topic,
        includeHeaders=True,
        failOnDataLoss=False,
        groupIdPrefix="team",
        **{
            "kafkaConsumer.pollTimeoutMs": 5000,
            "fetchOffset.numRetries": 2,
            "fetchOffset.retryIntervalMs": 5,
            "kafka.client.id": "me",
            "KAFKA.max.poll.records": 10,
            "minPartitions": 2,
            "maxTriggerDelay": "1m",
            "maxOffsetsPerTrigger": 2**63 - 1,
            "maxRecordsPerPartition": 2**63 - 1,
        },
    )
    assert source.values() == []
    assert source.available(tmp_path / "checkpoint", startingOffsets="earliest") == [[]]


def test_a_setting_that_no_client_of_kafka_knows_is_warned_of_once_with_the_one_that_was_meant(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """By source and sink; settings of a user's own classes have no similar name."""
    misspelt = {"kafka.max.pol.records": "5", "kafka.linger.msec": "5", "kafka.schema.registry.url": "http://h"}
    send(kafka, topic, "a")
    source = Source(spark, kafka, subscribe=topic)
    with warnings(spark, of="io.oncelog.kafka.ClientSettings") as warned:
        assert source.values(**{name: value for name, value in misspelt.items() if "linger" not in name}) == ["a"]
        assert source.values(**EARLIEST, **{"kafka.max.pol.records": "5"}) == ["a"]
        sink = kafka_sink.options(kafka, tmp_path, topic, **{"kafka.linger.msec": "5"})
        source.batch().select("value").write.format("oncelog-kafka").options(**sink).save()

    said = [line for line in warned.toString().splitlines() if "no client of Kafka knows this option" in line]
    assert [line.partition("; ")[2] for line in said] == [
        "option=kafka.max.pol.records, did you mean=kafka.max.poll.records",
        "option=kafka.schema.registry.url",
        "option=kafka.linger.msec, did you mean=kafka.linger.ms",
    ]
