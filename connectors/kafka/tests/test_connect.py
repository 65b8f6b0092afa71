"""Kafka through Spark Connect: source and sink by name, from a client that has neither a JVM nor py4j."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import oncelog
from tests.support.connectors.kafka_sink import options, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.spark.connect import Call, all_jars, jar_of, running_server
from tests.support.spark.queries import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.sampled("Spark Connect")]

PER_BATCH = 100


def source(broker: KafkaBroker, topic: str, **more: str) -> dict[str, Any]:
    given = {"kafka.bootstrap.servers": broker.address, "subscribe": topic, "startingOffsets": "earliest", **more}
    return {"format": "oncelog-kafka", "options": given}


def sink(broker: KafkaBroker, folder: Path, topic: str, **more: str) -> dict[str, Any]:
    return {"format": "oncelog-kafka", "options": options(broker, folder, topic, **more)}


def numbers(count: int) -> list[str]:
    return sorted(str(number) for number in range(count))


@pytest.mark.parametrize(
    "kills", [pytest.param(1, marks=pytest.mark.every_spark), pytest.param(10, marks=pytest.mark.walk("Spark Connect"))]
)
def test_a_copy_is_exact_though_the_server_is_killed_in_the_middle_again_and_again(
    kills: int, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The server has the connector's jar twice, which does no harm."""
    size = 2 * (kills + 3) * PER_BATCH
    blocked = tmp_path / "file"
    blocked.touch()
    first, target = (kafka.create_topic(fresh_name(name), partitions=2) for name in ("first", "target"))
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in range(size):
        producer.produce(first, value=str(number), partition=number % 2)
    assert producer.flush(30) == 0

    def copy(**more: Any) -> Call:
        limited = source(kafka, first, maxOffsetsPerTrigger=str(PER_BATCH))
        checkpoint = str(tmp_path / "ck")
        return "copy", {"source": limited, "sink": sink(kafka, tmp_path, target), "checkpoint": checkpoint, **more}

    with running_server(tmp_path, [*all_jars(), jar_of(oncelog.__version__, tmp_path)]) as server:
        for kill in range(1, kills + 1):
            with server.client(copy(is_endless=True)) as client:

                def is_under_way(wanted: int = kill * 2 * PER_BATCH) -> bool:
                    client.check_runs()
                    return len(values(kafka, target)) >= wanted

                until(is_under_way, within_s=PATIENCE_S)
                server.restart()
        _, written, read, refused, no_ledger, no_checkpoint = server.ask(
            copy(),
            ("write", {"values": ["more"], "to": sink(kafka, tmp_path, target)}),
            ("read", {"of": source(kafka, target)}),
            ("write", {"values": ["a"], "to": sink(kafka, tmp_path, "not-there")}),
            copy(
                sink=sink(kafka, tmp_path, target, znodes=str(blocked / "ledger")), checkpoint=str(tmp_path / "other")
            ),
            copy(checkpoint=str(blocked / "ck")),
        )

    assert written is None
    assert read == values(kafka, target) == sorted([*numbers(size), "more"])
    assert "UnknownTopicError: the sink's topic does not exist; create it first" in refused
    assert f"StoreAccessError: the znode store cannot be created [path='{blocked}" in no_ledger
    assert f"Parent path is not a directory: file:{blocked}" in no_checkpoint, "what docs/guides/cluster.md says"
