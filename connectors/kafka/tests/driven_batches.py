"""Batches that tests drive step by step: a sink over any number of drivers and runs, and no query.

The batches are DataFrames: what Spark would ask of the sink is asked by the test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog import metadata
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.types import TopicPartition
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.options import sink_options
from oncelog_kafka.protocol.participants import find_losers
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_sink import numbered, options, rows, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name

FIRST = numbered(20)
SECOND = numbered(20, first=20)

REWRITE: dict[str, Any] = {"onTimedOutParticipant": "rewrite", "participants": 3}
"""Options under which a batch that timed out is written again."""

Offsets = Mapping[str, Mapping[int, int]]

SHORT_MS = 5_000
"""Time-out of transactions that a test lets time out."""


def progress(group: str, start: Offsets, end: Offsets) -> GroupProgress[TopicPartition]:
    """What a batch moves a group from and to, by topic and partition."""
    return GroupProgress(group, _by_partition(start), _by_partition(end))


def _by_partition(offsets: Offsets) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): at for topic, found in offsets.items() for number, at in found.items()}


class World:
    """A sink, over any number of drivers and runs."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, **more: Any) -> None:
        self.spark = spark
        self.broker = broker
        self.topic = broker.create_topic(fresh_name("driven"), partitions=2)
        self.prefix = f"{self.topic}.p"
        self.store = metadata.open_metadata(str(folder / "ledger"))
        self.brokers = Brokers({"bootstrap_servers": broker.address})
        self.settings = options(broker, folder, self.topic, transactionalIdPrefix=self.prefix, **more)

    def target(self, **more: Any) -> KafkaTarget:
        return KafkaTarget(self.store, self.brokers, sink_options.parse({**self.settings, **more}))

    def request(self, batch_id: int, run: str) -> BatchRequest:
        return BatchRequest(self.prefix, "query", "sink", run, batch_id, f"fp-{batch_id}")

    def run(
        self,
        batch_id: int,
        texts: Sequence[str] | DataFrame,
        *,
        run: str = "run-1",
        target: KafkaTarget | None = None,
        offsets: GroupProgress[TopicPartition] | None = None,
        **more: Any,
    ) -> BatchReport:
        df = texts if isinstance(texts, DataFrame) else rows(self.spark, texts)
        driver = BatchDriver(target or self.target(**more))
        return driver.run(Batch(self.request(batch_id, run), SparkJob(df), offsets))

    def values(self) -> list[str]:
        return values(self.broker, self.topic)

    def open_ids(self) -> list[str]:
        return find_losers(self.prefix, 2**62, (), self.brokers.list_ids(["Ongoing"]))

    def wait_for_time_out(self) -> None:
        until(lambda: not self.open_ids(), tell=self.open_ids)
        time.sleep(0.5)  # the markers follow the decision of the coordinator

    def close(self) -> None:
        self.store.close()
        self.brokers.close()


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """On the broker that is shared, or on the one that a module calls `kafka` in its place."""
    found = World(spark, kafka, tmp_path)
    yield found
    found.close()


def time_out_behind_the_decision(world: World, texts: Sequence[str] | DataFrame = FIRST, **more: Any) -> None:
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, texts, transactionTimeoutMs=SHORT_MS, **more)
    world.wait_for_time_out()
