"""A stage of the sink that Spark runs again, on executors of their own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import oncelog_kafka
from oncelog_kafka.brokers import Brokers
from tests.support.connectors.kafka_sink import options, values
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims
from tests.support.spark.reruns import Rerun, RerunContract

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")


class World(Rerun):
    """Such a query into a topic."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        require_shims()
        self._broker = broker
        self._topic = broker.create_topic(fresh_name("rerun"), partitions=2)
        sink = options(broker, folder, self._topic, transactionalIdPrefix=f"{self._topic}.p")
        jars = {"spark.jars": oncelog_kafka.jars()}
        super().__init__(folder, "oncelog_kafka:sink", sink, select=["value"], spark=jars)

    def found(self) -> list[tuple[int, str]]:
        return sorted((int(value.split()[1]), value) for value in values(self._broker, self._topic))

    def left(self) -> list[str]:
        with closing(Brokers({"bootstrap_servers": self._broker.address})) as brokers:
            return [name for name, _ in brokers.list_ids(["Ongoing"]) if name.startswith(self._topic)]


class TestKafkaReruns(RerunContract):
    @pytest.fixture
    def world(self, kafka: KafkaBroker, tmp_path: Path) -> World:
        return World(kafka, tmp_path)
