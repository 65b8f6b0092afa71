"""Rows that name a ledger's topic: they are refused before anything is decided, and sinks of that ledger go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog_kafka
from oncelog.errors import InvalidOptionError
from oncelog_kafka import connections
from oncelog_kafka.ledger.ledger_store import open_ledger
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC, parse
from tests.support.connectors.kafka_sink import options, values
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.spark.queries import run_available

KEEPS = "keeps the ledger of"


class World:
    """A sink with its ledger in a topic, and rows of other sinks."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, topic: str) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.topic = topic
        self.ledger = fresh_name("books")
        (folder / "in").mkdir()

    def options(self, **more: Any) -> dict[str, Any]:
        return options(self.broker, self.folder, **more)

    def write(self, rows: DataFrame, **more: Any) -> None:
        rows.write.format("oncelog-kafka").options(**self.options(**more)).save()

    def rows(self, *topics: str) -> DataFrame:
        """A row for each topic, as a copy of a cluster by the names of its topics has."""
        found = [(topic, "x") for topic in topics]
        return self.spark.createDataFrame(found, "topic string, value string").repartition(len(topics))

    def mirror(self, how: str, *topics: str, **more: Any) -> None:
        if how == "batch write":
            self.write(self.rows(*topics), **more)
            return
        (self.folder / "in" / "rows.json").write_text("\n".join(f'{{"topic":"{name}","value":"x"}}' for name in topics))
        stream = self.spark.readStream.schema("topic string, value string").json(str(self.folder / "in")).repartition(2)
        writer = stream.writeStream
        if how == "by name":
            writer = writer.format("oncelog-kafka").options(**self.options(**more))
        else:
            writer = writer.foreachBatch(oncelog_kafka.sink(**self.options(**more)))
        run_available(writer, self.folder / "checkpoint")

    def foreign(self) -> int:
        """How many records of others are in the ledger's topic."""
        store = open_ledger({"bootstrap_servers": [self.broker.address]}, self.ledger, create=False)
        try:
            return store.foreign  # type: ignore[attr-defined, no-any-return]
        finally:
            store.close()


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path, topic: str) -> Iterator[World]:
    found = World(spark, kafka, tmp_path, topic)
    found.write(found.rows("x").select("value"), topic=topic, znodes=None, ledgerTopic=found.ledger)
    yield found
    connections.close_connections()


WAYS = ["batch write", "by name", "foreachBatch"]


@pytest.mark.every_spark
@pytest.mark.parametrize("how", WAYS)
def test_a_row_for_the_ledger_of_its_own_sink_is_refused_in_the_task(world: World, how: str) -> None:
    with pytest.raises(Exception, match=f"a row names the topic {world.ledger}, which {KEEPS}"):
        world.mirror(how, world.topic, world.ledger, znodes=None, ledgerTopic=world.ledger, topic=None)

    assert values(world.broker, world.topic) == ["x"], "nothing was decided"
    assert world.foreign() == 0
    world.write(world.rows("x").select("value"), topic=world.topic, znodes=None, ledgerTopic=world.ledger)
    assert values(world.broker, world.topic) == ["x", "x"]


@pytest.mark.every_spark
@pytest.mark.parametrize("how", WAYS)
def test_a_row_for_the_ledger_of_another_sink_is_refused_before_the_decision(world: World, how: str) -> None:
    """Its name is not known to this sink, whose own ledger is elsewhere; what is in the topic tells."""
    with pytest.raises(Exception, match=f"the topic {KEEPS} other sinks.*{world.ledger}"):
        world.mirror(how, world.topic, world.ledger, topic=None)

    assert values(world.broker, world.topic) == ["x"], "nothing was decided"
    assert world.foreign() > 0, "the row of the aborted transaction, and its marker"
    world.write(world.rows("x").select("value"), topic=world.topic, znodes=None, ledgerTopic=world.ledger)
    assert values(world.broker, world.topic) == ["x", "x"]


@pytest.mark.parametrize("how", WAYS)
def test_the_ledger_of_another_sink_is_refused_as_the_topic_of_all_rows(world: World, how: str) -> None:
    with pytest.raises(Exception, match=f"the topic {KEEPS} other sinks.*{world.ledger}"):
        world.mirror(how, "anywhere", topic=world.ledger)
    assert world.foreign() == 0


PARSED = [
    ({"topic": DEFAULT_LEDGER_TOPIC}, DEFAULT_LEDGER_TOPIC),
    ({"topic": DEFAULT_LEDGER_TOPIC, "znodes": "sqlite:/a/file"}, DEFAULT_LEDGER_TOPIC),
    ({"TOPIC": DEFAULT_LEDGER_TOPIC, "ledgerTopic": "books"}, DEFAULT_LEDGER_TOPIC),
    ({"topic": "books", "ledgerTopic": " books "}, "books"),
]


@pytest.mark.parametrize(("given", "name"), PARSED)
def test_a_ledger_that_the_options_name_is_refused_as_the_topic_of_rows(given: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidOptionError, match="keeps the ledger of sinks") as refused:
        parse({"kafka.bootstrap.servers": "h1:9092", **given})
    assert (refused.value.fields["option"], refused.value.fields["value"]) == ("topic", name)
