"""Spark Declarative Pipelines, by their own command line: what docs/guides/pipelines.md says of a full refresh.

The first run starts Spark with the jars, as in the guide; the others use a Connect server, which takes less time.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import oncelog
from oncelog.runtime import Log
from tests.support.connectors.kafka_sink import values
from tests.support.docs.blocks import ROOT, blocks
from tests.support.log.logs import values as logged
from tests.support.servers.kafka import KafkaBroker, fresh_name, send
from tests.support.spark.connect import ConnectServer, connect_server
from tests.support.spark.pipelines import Pipeline

__all__ = ["connect_server"]

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
        self.prefix = f"{self.topic}.p"
        self.pipeline = Pipeline(folder)
        self.define()

    def define(self, *, in_kafka: Mapping[str, str] | None = None, in_log: Mapping[str, str] | None = None) -> None:
        """Write the programs, with these options of the sinks next to or in place of the first ones."""
        delayed = {"topic": self.topic, "transactionalIdPrefix": self.prefix, **(in_kafka or {})}
        places = {
            "localhost:9092": self.kafka.address,
            '"subscribe", "flights"': f'"subscribe", "{self.source}"',
            '"topic": "delayed", "transactionalIdPrefix": "delayed"': json.dumps(delayed).strip("{}"),
        }
        [program] = (block for block in blocks(GUIDE) if block.language == "python")
        kept = {"path": self.log.path, "topic": "kept", "transactionalIdPrefix": "kept", **(in_log or {})}
        self.pipeline.define(flights=program.at(places), kept=KEPT.format(options=kept))

    def refused(self, *arguments: str, on: str) -> dict[str, str]:
        """Run the pipeline, which sinks refuse; returns the queries that have the history, by the sinks' prefixes."""
        refusal = self.pipeline.run(*arguments, on=on)
        assert refusal is not None
        return dict(re.findall(f"{REFUSED}.*prefix='(.*?)', stored_query_id='(.*?)'", refusal))

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


def test_a_full_refresh_is_refused_until_it_is_taken_back_or_made_on_purpose(
    world: World, connect_server: ConnectServer
) -> None:
    refresh = "--full-refresh-all"
    server = connect_server.url()
    world.send("20", "21")
    assert world.pipeline.run() is None
    world.send("22")

    for arguments in ([refresh], []):
        owners = world.refused(*arguments, on=server)
        assert set(owners) == {world.prefix, "kept"}
        assert world.found() == [["20", "21"]] * 2

    for flow in ("delayed/delays", "kept/copies"):
        shutil.rmtree(world.pipeline.checkpoint(flow, 1))
    assert world.pipeline.run(on=server) is None
    assert world.found() == [["20", "21", "22"]] * 2

    of_kafka = {"transactionalIdPrefix": f"{world.topic}.again"}
    of_log = {"takeover": owners["kept"]}
    world.define(in_kafka=of_kafka, in_log=of_log)
    assert world.pipeline.run(refresh, on=server) is None
    assert world.found() == [["20", "20", "21", "21", "22", "22"]] * 2

    world.define(in_kafka={**of_kafka, "takeover": world.pipeline.query_of("delayed/delays", 1)}, in_log=of_log)
    assert list(world.refused(refresh, on=server)) == ["kept"], "the option took one query over, and no other"
    assert world.found() == [sorted(["20", "21", "22"] * 3), ["20", "20", "21", "21", "22", "22"]]
