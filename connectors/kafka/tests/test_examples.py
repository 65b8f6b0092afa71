"""The examples on Kafka run as they stand, twice: the second time they copy only what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog_kafka import connections
from tests.support.connectors.kafka_sink import values
from tests.support.docs.examples import run_here
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims, send

pytestmark = pytest.mark.sampled("example programs")

Printed = Callable[..., list[str]]


@pytest.fixture
def printed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Printed]:
    """Runs an example with its arguments, and returns the lines that it printed."""
    require_shims()

    def run(name: str, *arguments: object) -> list[str]:
        run_here(name, *arguments, monkeypatch=monkeypatch)
        return capsys.readouterr().out.splitlines()

    yield run
    connections.close_connections()


def test_kafka_to_kafka_copies_what_is_new(kafka: KafkaBroker, tmp_path: Path, printed: Printed) -> None:
    source, target = (kafka.create_topic(fresh_name(kind), partitions=1) for kind in ("flights", "copies"))
    for number, copied in enumerate((["a"], ["a", "b"])):
        send(kafka, source, copied[number])
        assert printed("kafka_to_kafka", kafka.address, source, target, tmp_path) == [
            f"Copied 1 records from {source} to {target}"
        ]
        assert values(kafka, target) == copied


def test_kafka_to_log_copies_what_is_new(kafka: KafkaBroker, tmp_path: Path, printed: Printed) -> None:
    topic = kafka.create_topic(fresh_name("flights"), partitions=1)
    for count in (1, 2):
        send(kafka, topic, "a")
        assert printed("kafka_to_log", kafka.address, topic, tmp_path) == [
            f"The log in {tmp_path}/log has {count} records"
        ]


def test_log_to_kafka_copies_what_is_new(kafka: KafkaBroker, tmp_path: Path, printed: Printed) -> None:
    topic = kafka.create_topic(fresh_name("copies"), partitions=1)
    for count in (1, 2):
        assert printed("log_to_kafka", kafka.address, topic, tmp_path) == [f"Copied 3 records to {topic}"]
        assert values(kafka, topic) == ["departed"] * 3 * count
