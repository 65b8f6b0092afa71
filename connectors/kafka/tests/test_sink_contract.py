"""Kafka passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from oncelog import metadata
from oncelog.testing.target_contract import StoppedOnPurposeError, TargetContract, TargetWorld
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.options import sink_options
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.jobs import Written
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_sink import rows, values
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims


class BrokenSparkJob(SparkJob):
    """Its tasks fail."""

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> Written:
        raise StoppedOnPurposeError("the job fails on purpose")


class KafkaWorld(TargetWorld):
    spark: ClassVar[SparkSession]
    broker: ClassVar[KafkaBroker]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.topic = self.broker.create_topic(fresh_name("contract"), partitions=2)
        self._store = metadata.open_metadata(str(folder / "ledger"))
        self._brokers = Brokers({"bootstrap_servers": self.broker.address})
        self.prefix = f"{self.topic}.p"

    def target(self) -> KafkaTarget:
        given = {
            "kafka.bootstrap.servers": self.broker.address,
            "znodes": str(self.folder / "ledger"),
            "topic": self.topic,
            "transactionTimeoutMs": 60_000,
        }
        return KafkaTarget(self._store, self._brokers, sink_options.parse(given))

    def job(self, values: Sequence[str]) -> SparkJob:
        return SparkJob(rows(self.spark, values))

    def broken_job(self) -> SparkJob:
        return BrokenSparkJob(rows(self.spark, ["x"]))

    def visible(self) -> list[str]:
        return values(self.broker, self.topic)

    def close(self) -> None:
        self._store.close()
        self._brokers.close()


class TestKafkaTarget(TargetContract):
    world_class = KafkaWorld

    @pytest.fixture(autouse=True)
    def _parts(self, spark: SparkSession, kafka: KafkaBroker) -> None:
        require_shims()
        KafkaWorld.spark, KafkaWorld.broker = spark, kafka
