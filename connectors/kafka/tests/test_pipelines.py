"""Spark Declarative Pipelines, by their own command line: what docs/guides/pipelines.md says of a full refresh."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog.runtime import Log
from tests.support.connectors.kafka_sink import values
from tests.support.docs.blocks import ROOT, blocks
from tests.support.log.logs import values as logged
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.pipelines import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.sampled("pipelines")]

REFUSED = "another query has history under this prefix, or this query has begun a new checkpoint"

GUIDE = ROOT / "docs/guides/pipelines.md"

KEPT = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

dp.create_sink("kept", "oncelog", {options})


@dp.append_flow(target="kept")
def copies() -> DataFrame:
    return SparkSession.active().readStream.table("flights").select("key", "value")
"""
"""A second program of the guide's pipeline: a sink in an embedded log."""


class World:
    """The pipeline of the guide, and its source."""

    def __init__(self, kafka: KafkaBroker, folder: Path, log: Log) -> None:
        self.kafka = kafka
        self.log = log
        self.source, self.topic = kafka.create_topic(fresh_name("flights")), kafka.create_topic(fresh_name("delayed"))
        self.pipeline = Pipeline(folder)
        self.define()

    def define(self) -> None:
        """Write the programs."""
        in_kafka = {"topic": self.topic, "transactionalIdPrefix": f"{self.topic}.p"}
        places = {
            "localhost:9092": self.kafka.address,
            '"subscribe", "flights"': f'"subscribe", "{self.source}"',
            '"topic": "delayed", "transactionalIdPrefix": "delayed"': json.dumps(in_kafka).strip("{}"),
        }
        [program] = (block for block in blocks(GUIDE) if block.language == "python")
        in_log = {"path": self.log.path, "topic": "kept", "transactionalIdPrefix": "kept"}
        self.pipeline.define(flights=program.at(places), kept=KEPT.format(options=in_log))

    def send(self, *sent: str) -> None:
        send(self.kafka, self.source, *sent)

    def found(self) -> list[list[str]]:
        kept = [value.decode() for value in logged(self.log, topic="kept") if value]
        return [sorted(values(self.kafka, self.topic)), sorted(kept)]


@pytest.fixture
def world(kafka: KafkaBroker, tmp_path: Path) -> Iterator[World]:
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic("kept", partitions=2)
        yield World(kafka, tmp_path / "pipeline", log)


def test_a_full_refresh_is_refused_until_it_is_taken_back(world: World) -> None:
    world.send("20", "21")
    assert world.pipeline.run() is None
    world.send("22")

    for arguments in (["--full-refresh-all"], []):
        refusal = world.pipeline.run(*arguments)
        assert refusal is not None
        assert REFUSED in refusal
        assert world.found() == [["20", "21"]] * 2

    for flow in ("delayed/delays", "kept/copies"):
        shutil.rmtree(world.pipeline.checkpoint(flow, 1))
    assert world.pipeline.run() is None
    assert world.found() == [["20", "21", "22"]] * 2
