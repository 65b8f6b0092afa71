"""What a user reads when a batch cannot be written: the topic, the cause and the fix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import oncelog_kafka
from oncelog.metadata import open_metadata
from oncelog.ports import Set
from oncelog_kafka import connections
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from tests.support.connectors.kafka_sink import committed, options, values
from tests.support.harness.variants import variants
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, running_broker
from tests.support.spark.queries import PATIENCE_S, run_available


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
def test_a_topic_or_partition_that_does_not_exist_is_noticed_before_the_row_is_sent(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, query: str, problem: str
) -> None:
    """Kafka's producer would name neither after a minute or two of waiting for metadata."""
    topic = kafka.create_topic(fresh_name("small"), partitions=2)

    said = write(spark, kafka, tmp_path, query, None if "topic" in query else topic)

    assert problem.format(topic) in said
    assert "not present in metadata" not in said, "the words of Kafka's producer, which has waited"


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
            query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()


def test_a_topic_that_was_deleted_while_a_task_runs_is_named(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """The first row is acknowledged, and the task waits for the last one. Kafka's client would repeat its requests."""
    topic = kafka.create_topic(fresh_name("deleted"))

    def delete() -> None:
        until(lambda: values(kafka, topic, isolation="read_uncommitted"))
        kafka.delete_topic(topic)

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"value": "first"}\n{"value": "last"}')
    rows = with_a_pause(spark.readStream.schema("value string").json(str(tmp_path / "in")), "''")
    given = options(kafka, tmp_path, topic, **{"kafka.linger.ms": "0", "kafka.max.block.ms": "600000"})
    with ThreadPoolExecutor(1) as other, pytest.raises(Exception, match=f"UnknownTopicError: .*Topic {topic} does not"):
        deleted = other.submit(delete)
        run_available(rows.writeStream.format("oncelog-kafka").options(**given), tmp_path / "checkpoint")
    deleted.result()


@pytest.mark.parametrize("how", variants("stream", "batch write"))
@pytest.mark.parametrize(
    ("last", "cause"), [("repeat('x', 2000000)", "RecordTooLargeError: "), ("''", "CorruptDataError: ")]
)
def test_the_first_cause_survives_if_the_abort_fails_too(
    kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, topic: str, how: str, last: str, cause: str
) -> None:
    """The ledger is damaged while a task waits between its rows. Then the task fails by its last row, or the commit."""

    def damage() -> None:
        until(lambda: values(kafka, topic, isolation="read_uncommitted"))
        with closing(open_metadata(str(tmp_path / "ledger"), create=False)) as store:
            (prefix,) = KAFKA_LEDGERS.prefixes(store)
            store.multi([Set(KAFKA_LEDGERS.path(prefix), b"damaged")])

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"value": "first"}\n{"value": "last"}')
    given = options(kafka, tmp_path, topic, **{"kafka.linger.ms": "0"})
    with ThreadPoolExecutor(1) as other, pytest.raises(Exception, match="Error: ") as error:
        damaged = other.submit(damage)
        reader = spark.readStream if how == "stream" else spark.read
        rows = with_a_pause(reader.schema("value string").json(str(tmp_path / "in")), last)
        if how == "stream":
            run_available(rows.writeStream.format("oncelog-kafka").options(**given), tmp_path / "checkpoint")
        else:
            rows.write.format("oncelog-kafka").options(**given).save()
    damaged.result()

    assert cause in str(error.value).split("JVM stacktrace")[0]


def with_a_pause(rows: Any, last: str) -> Any:
    """The first row at once, and after some seconds this one."""
    pause = "substr(reflect('java.lang.Thread', 'sleep', 4000L), 0, 0)"
    return rows.selectExpr(f"if(value = 'first', value, concat(value, {pause}, {last})) AS value")


@pytest.mark.parametrize("how", variants("batch write", "stream", "function"))
def test_brokers_that_cannot_be_reached_are_named(spark: SparkSession, tmp_path: Path, how: str) -> None:
    unreachable = {"kafka.bootstrap.servers": NOWHERE, "admin.bootstrap_timeout_ms": "2000"}
    said = error_of(spark, how, tmp_path, {**unreachable, "topic": "out"})

    assert "BrokerUnavailableError: " in said
    assert NOWHERE in said


@pytest.mark.sampled("brokers that cannot be reached")
@pytest.mark.parametrize("client", ["python", "java"])
@pytest.mark.parametrize("how", ["batch write", "stream", "function"])
def test_brokers_that_cannot_be_reached_are_given_up_by_default(
    spark: SparkSession, tmp_path: Path, how: str, client: str
) -> None:
    said = error_of(spark, how, tmp_path, {"kafka.bootstrap.servers": NOWHERE, "topic": "out", "admin.client": client})

    assert "BrokerUnavailableError: " in said
    assert NOWHERE in said


NOWHERE = "127.0.0.1:1"


def error_of(spark: SparkSession, how: str, folder: Path, given: dict[str, Any]) -> str:
    with pytest.raises(Exception, match="Error: ") as error:
        if how == "batch write":
            spark.sql("select 'v' as value").write.format("oncelog-kafka").options(**given).save()
        else:
            writer = spark.readStream.format("rate").load().selectExpr("string(value) value").writeStream
            if how == "stream":
                writer = writer.format("oncelog-kafka").options(**given)
            else:
                writer = writer.foreachBatch(oncelog_kafka.sink(**given))
            run_available(writer, folder / "checkpoint")
    return str(error.value).split("JVM stacktrace")[0]


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
