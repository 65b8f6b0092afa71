"""Read-process-write: from Kafka to Kafka, and between Kafka and the embedded log, with both ends exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oncelog
import oncelog.spark
import oncelog_kafka
from oncelog.spark.logs import close_logs
from oncelog_kafka import connections
from tests.support.connectors.kafka_sink import committed, numbered, options, values
from tests.support.log.logs import values as log_values
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.spark.queries import forget_last_commit, run_available

pytestmark = pytest.mark.sampled("between a log and Kafka")


class World:
    """A topic with transactions of somebody else, and queries that copy it."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, door: str) -> None:
        self.spark = spark
        self.door = door
        self.broker = broker
        self.folder = folder
        self.source = broker.create_topic(fresh_name("source"), partitions=2)
        self.target = broker.create_topic(fresh_name("target"), partitions=2)
        self.group = fresh_name("group")

    def write(self, texts: Sequence[str], *, commit: bool = True) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "transactional.id": "writer", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for at, text in enumerate(texts):
            producer.produce(self.source, value=text, partition=at % 2)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)

    def stream(self, **more: str) -> DataFrame:
        reader = self.spark.readStream.format("oncelog-kafka").option("kafka.bootstrap.servers", self.broker.address)
        settings: Mapping[str, str] = {"subscribe": self.source, "startingOffsets": "earliest", **more}
        return reader.options(**settings).load().select("value")

    def copy(self, df: DataFrame, checkpoint: str = "checkpoint", **more: object) -> None:
        given = options(self.broker, self.folder, self.target, transactionalIdPrefix=f"{self.target}.p", **more)
        if self.door == "format":
            writer = df.writeStream.format("oncelog-kafka").options(**given)
        else:
            writer = df.writeStream.foreachBatch(oncelog_kafka.sink(**given))
        run_available(writer, self.folder / checkpoint)

    def found(self) -> list[str]:
        return values(self.broker, self.target)


@pytest.fixture
def world(shared_broker: KafkaBroker, spark: SparkSession, tmp_path: Path, door: str) -> Iterator[World]:
    yield World(spark, shared_broker, tmp_path, door)
    connections.close_connections()
    close_logs()


@pytest.mark.parametrize("shared_broker", ["kafka", "kafka_tv1"], indirect=True)
def test_a_copy_of_a_topic_holds_what_was_committed_once_and_its_group_stands_behind_it(world: World) -> None:
    world.write(numbered(10))
    world.write(numbered(10, first=900), commit=False)
    world.copy(world.stream(), groupId=world.group)
    forget_last_commit(world.folder / "checkpoint")
    world.write(numbered(10, first=10))
    world.copy(world.stream(), groupId=world.group)

    assert world.found() == numbered(20)
    # Twenty committed and aborted records and five and five more, and a marker for each transaction.
    assert committed(world.broker, world.group, world.source) == {0: 18, 1: 18}


def test_a_group_that_somebody_else_moved_stops_the_query_and_stays_where_it_is(world: World) -> None:
    world.write(numbered(10))
    world.copy(world.stream(), groupId=world.group)
    world.broker.commit_group_offset(world.group, world.source, 1, offset=2)
    world.write(numbered(10, first=10))

    with pytest.raises(StreamingQueryException, match=r"BatchRefusedError: .*group.*\(2, 6\)"):
        world.copy(world.stream(), groupId=world.group)

    assert world.found() == numbered(10)
    assert committed(world.broker, world.group, world.source) == {0: 6, 1: 2}


def test_after_a_lost_checkpoint_a_query_goes_on_where_its_group_stands(world: World) -> None:
    """conformance: 59."""
    world.write(numbered(10))
    world.copy(world.stream(), groupId=world.group)
    (query_id,) = {_query_id(world.folder / "checkpoint")}
    world.write(numbered(10, first=10))

    again = world.stream(startingOffsets="group", groupId=world.group)
    world.copy(again, "another", groupId=world.group, takeover=query_id)

    assert world.found() == numbered(20)


def test_rows_of_an_embedded_log_arrive_in_kafka_once(world: World) -> None:
    with oncelog.open(world.folder / "log") as log:
        log.create_topic("in", partitions=2)
        with log.producer(transactional_id="writer") as producer:
            producer.init_transactions()
            with producer.transaction():
                for text in numbered(10):
                    producer.send("in", text.encode())
        rows = (
            world.spark.readStream.format("oncelog")
            .option("path", log.path)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .load()
            .select("value")
        )
        world.copy(rows)
        forget_last_commit(world.folder / "checkpoint")
        world.copy(rows)

    assert world.found() == numbered(10)


@pytest.mark.parametrize("door", ["foreachBatch"])  # the log's door
def test_rows_of_kafka_arrive_in_an_embedded_log_once(world: World) -> None:
    world.write(numbered(10))
    with oncelog.open(world.folder / "log") as log:
        log.create_topic("out", partitions=2)
        for _ in range(2):
            sink = oncelog.spark.sink(path=log.path, topic="out")
            run_available(world.stream().writeStream.foreachBatch(sink), world.folder / "checkpoint")
            if (world.folder / "checkpoint" / "commits" / "0").exists():
                forget_last_commit(world.folder / "checkpoint")

        assert sorted(value or b"" for value in log_values(log, topic="out")) == [t.encode() for t in numbered(10)]


def test_a_group_of_kafka_cannot_hold_the_offsets_of_a_log(world: World) -> None:
    with oncelog.open(world.folder / "log") as log:
        log.create_topic("in")
        log.producer().send("in", b"a").result()
        reader = world.spark.readStream.format("oncelog").options(path=log.path, subscribe="in", groupId=world.group)
        rows = reader.option("startingOffsets", "earliest").load().select("value")

        with pytest.raises(StreamingQueryException, match="a Kafka group cannot hold the offsets of a log"):
            world.copy(rows, groupId=world.group)
        world.copy(rows)

    assert world.found() == ["a"]


@pytest.mark.parametrize("door", ["foreachBatch"])  # the log's door
def test_a_group_of_a_log_cannot_hold_the_offsets_of_kafka(world: World) -> None:
    world.write(numbered(2))
    given = {"topic": "out", "transactionalIdPrefix": "copier"}
    with oncelog.open(world.folder / "log") as log:
        log.create_topic("out")
        rows = world.stream(groupId=world.group)

        with pytest.raises(StreamingQueryException, match="a group of the log cannot hold Kafka offsets"):
            sink = oncelog.spark.sink(path=log.path, groupId=world.group, **given)
            run_available(rows.writeStream.foreachBatch(sink), world.folder / "checkpoint")
        sink = oncelog.spark.sink(path=log.path, **given)
        run_available(rows.writeStream.foreachBatch(sink), world.folder / "checkpoint")

        assert sorted(value or b"" for value in log_values(log, topic="out")) == [t.encode() for t in numbered(2)]


def _query_id(checkpoint: Path) -> str:
    import json

    found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    return found
