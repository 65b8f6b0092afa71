"""What a user reads when a batch cannot be written: the topic, the cause and the fix, and soon."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from oncelog_kafka import connections
from tests.support.connectors.kafka_sink import committed, options
from tests.support.servers.kafka import KafkaBroker, fresh_name, running_broker
from tests.support.spark.queries import run_available

KNOWN_ABSENT_S = 40
"""Well below the 60 and 120 seconds for which Kafka's producer would wait, on a machine that is busy."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    connections.close_connections()


def write(spark: SparkSession, broker: KafkaBroker, folder: Path, query: str, topic: str | None, **more: Any) -> str:
    """The error of a batch write."""
    writer = spark.sql(query).write.format("oncelog-kafka").options(**options(broker, folder, topic, **more))
    with pytest.raises(Exception, match="Error: ") as error:
        writer.save()
    return str(error.value).split("JVM stacktrace")[0]


@pytest.mark.parametrize(
    ("settings", "more", "problem"),
    [
        (
            {"cleanup_policy": "compact"},
            {},
            r"InvalidRecordError: a topic does not take a record: one that is compacted needs a key",
        ),
        (
            {},
            {"kafka.request.timeout.ms": "50000", "kafka.delivery.timeout.ms": "40000"},
            r"InvalidOptionError: the tasks' producers cannot be created with these kafka.* options.*delivery.timeout",
        ),
    ],
)
def test_why_a_record_could_not_be_sent_is_named(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, settings: Any, more: Any, problem: str
) -> None:
    topic = kafka.create_topic(fresh_name("strict"), **settings)

    said = write(spark, kafka, tmp_path, "select 'v' as value", topic, **more)

    assert re.search(problem, said)
    assert more or f"topic {topic}, partition 0" in said


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select 'v' as value, 99 as partition", "Partition 99 of topic {} does not exist: it has 2 partitions"),
        ("select 'v' as value, 'not-here' as topic", "Topic not-here does not exist"),
    ],
)
def test_a_topic_or_partition_that_does_not_exist_is_named_soon(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, query: str, problem: str
) -> None:
    topic = kafka.create_topic(fresh_name("small"), partitions=2)
    began_s = time.monotonic()

    said = write(spark, kafka, tmp_path, query, None if "topic" in query else topic)

    assert problem.format(topic) in said
    assert time.monotonic() - began_s < KNOWN_ABSENT_S


def test_a_topic_that_was_deleted_while_the_query_runs_is_named(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.create_topic(fresh_name("deleted"))
    (tmp_path / "in").mkdir()

    def add(name: str) -> None:
        (tmp_path / "in" / f"{name}.json").write_text(json.dumps({"value": name}))

    add("first")
    rows = spark.readStream.schema("value string").json(str(tmp_path / "in"))
    writer = rows.writeStream.format("oncelog-kafka").options(**options(kafka, tmp_path, topic))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        kafka.delete_topic(topic)
        add("second")
        with pytest.raises(Exception, match=f"UnknownTopicError: the sink's topic does not exist.*{topic}"):
            query.awaitTermination(KNOWN_ABSENT_S)
    finally:
        query.stop()


def test_columns_in_other_letters_are_shown(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    topic = kafka.create_topic(fresh_name("letters"))

    said = write(spark, kafka, tmp_path, "select 'v' as Value, 'k' as Key", topic)

    assert "InvalidRecordError: the rows lack a column of the sink" in said
    assert "column='value', found=['Value', 'Key']" in said


def test_offsets_of_another_cluster_are_not_committed_to_the_sinks_group(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """Both clusters have the topic."""
    topic, out, group = fresh_name("orders"), fresh_name("bills"), fresh_name("billing")
    with running_broker(tmp_path / "source") as source:
        for broker, count in ((kafka, 3), (source, 5)):
            broker.create_topic(topic)
            broker.create_topic(out)
            send(broker, topic, count)

        def copy(read_from: KafkaBroker, name: str) -> None:
            given = options(kafka, tmp_path, out, groupId=group, transactionalIdPrefix=f"{out}.{name}")
            writer = stream(spark, read_from, topic).writeStream.format("oncelog-kafka").options(**given)
            run_available(writer, tmp_path / name)

        copy(kafka, "ours")
        with pytest.raises(Exception, match="BatchRefusedError: a source reads another cluster"):
            copy(source, "theirs")
        assert committed(kafka, group, topic) == {0: 3}


def stream(spark: SparkSession, broker: KafkaBroker, topic: str) -> Any:
    reader = spark.readStream.format("oncelog-kafka").option("kafka.bootstrap.servers", broker.address)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load().select("value")


def send(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    producer.flush()
