"""A pattern reads no ledger, whatever it is called; one that is named is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelog_kafka import connections
from tests.support.connectors.kafka_sink import options, values
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.queries import run_available


class World:
    """Topics of one beginning, a sink that copies them, and its ledger, whose name begins in the same way."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.name = f"{fresh_name('pattern')}.in"
        self.ledger = f"{self.name}-books"
        self.orders = broker.create_topic(f"{self.name}-orders", partitions=1)
        self.archive = broker.create_topic(fresh_name("archive"), partitions=2)

    def read(self, **more: Any) -> dict[str, int]:
        given = {"kafka.bootstrap.servers": self.broker.address, **more}
        found = self.spark.read.format("oncelog-kafka").options(**given).load().groupBy("topic").count().collect()
        return {row["topic"]: row["count"] for row in found}

    def copy(self) -> None:
        """A run of a query that copies all topics of the name, as a schedule starts it."""
        given = {"kafka.bootstrap.servers": self.broker.address, "subscribePattern": f"{self.name}.*"}
        rows = self.spark.readStream.format("oncelog-kafka").options(**given, startingOffsets="earliest").load()
        ledger = {"znodes": None, "ledgerTopic": self.ledger}
        sink = options(self.broker, self.folder, self.archive, transactionalIdPrefix=f"{self.archive}.p", **ledger)
        writer = rows.select("key", "value").writeStream.format("oncelog-kafka").options(**sink)
        run_available(writer, self.folder / "checkpoint")


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    yield World(spark, kafka, tmp_path)
    connections.close_connections()


@pytest.mark.every_spark
def test_a_query_that_copies_all_topics_copies_no_ledger(world: World) -> None:
    send(world.broker, world.orders, "17", "18")
    for number in range(3):
        world.copy()
        send(world.broker, world.orders, str(number))
    world.copy()

    assert values(world.broker, world.archive) == ["0", "1", "17", "18", "2"]
    assert world.read(subscribePattern=f"{world.name}.*") == {world.orders: 5}
    assert world.read(subscribe=world.ledger)[world.ledger] > 5, "it is read by its name"


def test_a_query_that_read_a_ledger_before_goes_on_without_it(world: World) -> None:
    """Its checkpoint was written by an older oncelog, which read ledgers, too."""
    send(world.broker, world.orders, "17")
    world.copy()
    for file in (world.folder / "checkpoint" / "offsets").glob("[0-9]*"):
        lines = file.read_text().splitlines()
        lines[-1] = json.dumps({world.ledger: {"0": 2}, **json.loads(lines[-1])})
        file.write_text("\n".join(lines))
        file.with_name(f".{file.name}.crc").unlink()
    send(world.broker, world.orders, "18")
    world.copy()

    assert values(world.broker, world.archive) == ["17", "18"]


def test_data_with_the_settings_of_a_ledger_is_read_by_a_pattern(world: World) -> None:
    wanted = {"message_timestamp_type": "LogAppendTime", "retention_ms": "-1", "retention_bytes": "-1"}
    audit = world.broker.create_topic(f"{world.name}-audit", partitions=1, **wanted)
    send(world.broker, world.orders, "17")
    world.copy()
    send(world.broker, audit, '{"version":1,"id":2}', None)
    world.copy()

    assert values(world.broker, world.archive) == ["", "17", '{"version":1,"id":2}']
    assert world.read(subscribePattern=f"{world.name}.*") == {audit: 2, world.orders: 1}
