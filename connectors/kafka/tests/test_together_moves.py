"""The ledger of several sinks moves: with a copy they go on exactly once, without one they are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as arrow
import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import oncelog.spark
import oncelog_files
import oncelog_kafka
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.testing.target_contract import at, stop
from oncelog_kafka import connections
from tests.support.connectors.kafka_sink import values
from tests.support.harness.variants import variants
from tests.support.servers.kafka import KafkaBroker, fresh_name
from tests.support.spark.queries import forget_last_commit, run_available


class Copies:
    """A query into a topic and a folder, with the ledger where the first of them says."""

    def __init__(self, spark: SparkSession, kafka: KafkaBroker, folder: Path, topic: str) -> None:
        self.spark = spark
        self.kafka = kafka
        self.folder = folder
        self.topic = topic
        self.ledger = fresh_name("ledger")
        (folder / "in").mkdir()

    def run(self, value: str | None = None, **place: Any) -> None:
        """Write one more batch into both."""
        if value is not None:
            (self.folder / "in" / f"{value}.json").write_text(json.dumps({"value": value}))
        prefix = f"{self.topic}.p"
        given = {"kafka.bootstrap.servers": self.kafka.address, "topic": self.topic, "transactionalIdPrefix": prefix}
        both = oncelog.spark.together(
            oncelog_kafka.sink(**given, **place),
            oncelog_files.sink(path=str(self.folder / "files"), transactionalIdPrefix=prefix),
        )
        rows = self.spark.readStream.schema("value string").json(str(self.folder / "in"))
        run_available(rows.writeStream.foreachBatch(both), self.folder / "checkpoint")

    def copy(self, place: Path) -> None:
        cluster = ["--brokers", self.kafka.address, "--ledger-topic", self.ledger]
        done = CliRunner().invoke(main, ["kafka", *cluster, "ledger", "copy", "--from", str(place)])
        assert done.exit_code == 0, done.output

    def found(self) -> list[list[str]]:
        """The values in the topic and in the folder."""
        files = [str(file) for file in (self.folder / "files").glob("part-*.parquet")]
        in_files = arrow.dataset(files, format="parquet").to_table().column("value").to_pylist()
        return [values(self.kafka, self.topic), sorted(in_files)]


@pytest.fixture
def copies(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, topic: str) -> Iterator[Copies]:
    yield Copies(spark, kafka, tmp_path, topic)
    connections.close_connections()
    close_ledgers()


@pytest.mark.parametrize("batches", variants("1", "2"))
def test_sinks_whose_ledger_was_copied_go_on_in_the_new_place_only(
    copies: Copies, tmp_path: Path, batches: str
) -> None:
    """Spark has not recorded the last batch, which the new ledger has to know, too."""
    written = [f"{number}" for number in range(int(batches))]
    for value in written:
        copies.run(value, znodes=str(tmp_path / "former"))
    forget_last_commit(tmp_path / "checkpoint")

    with pytest.raises(StreamingQueryException, match="in another ledger"):
        copies.run(ledgerTopic=copies.ledger)
    copies.kafka.delete_topic(copies.ledger)
    connections.close_connections()
    copies.copy(tmp_path / "former")
    copies.run("later", ledgerTopic=copies.ledger)

    assert copies.found() == [[*written, "later"]] * 2


def test_a_batch_in_doubt_is_finished_after_the_ledger_was_copied(copies: Copies, tmp_path: Path) -> None:
    copies.run("0", znodes=str(tmp_path / "former"))
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StreamingQueryException):
        copies.run("1", znodes=str(tmp_path / "former"))

    copies.copy(tmp_path / "former")
    copies.run("2", ledgerTopic=copies.ledger)

    assert copies.found() == [["0", "1", "2"]] * 2
