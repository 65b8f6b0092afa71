"""The source on executors of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims, send
from tests.support.spark.processes import start_job
from tests.support.spark.standalone import standalone_cluster


@pytest.mark.walk("executors of a real cluster")
def test_each_partition_is_read_by_one_executor_which_keeps_its_consumer(kafka: KafkaBroker, tmp_path: Path) -> None:
    require_shims()
    partitions = 4
    topic = kafka.create_topic(fresh_name("spread"), partitions=partitions)
    for number in range(partitions):
        send(kafka, topic, *"abcde", partition=number)
    source = {
        "kafka.bootstrap.servers": kafka.address,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": partitions,
    }
    with standalone_cluster(tmp_path) as master:
        settings = {
            "master": master,
            "source": source,
            "checkpoint": str(tmp_path / "checkpoint"),
            "found": str(tmp_path / "found"),
        }
        with start_job("kafka_locality", settings, tmp_path, "driver") as driver:
            assert driver.wait() == 0, driver.last_lines()

    first, *later = json.loads((tmp_path / "found").read_text())[1:]  # while the first ran an executor may be missing
    assert len(set(first.values())) == 2
    assert len(later) == 3
    assert all(readers == first for readers in later)
