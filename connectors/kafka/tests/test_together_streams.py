"""A query whose batches go into five stores under one decision: what clients that are not ours find in each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as arrow
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession

import oncelog
import oncelog.spark
import oncelog_files
import oncelog_kafka
import oncelog_postgres
import oncelog_tables
from oncelog.crash_points import CrashPoint
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.spark.logs import close_logs
from oncelog.spark.together_sink import TogetherSink
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from tests.support.connectors.kafka_sink import values
from tests.support.log.logs import values as values_in_log
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims
from tests.support.servers.postgres import PostgresServer
from tests.support.spark.queries import forget_last_commit, run_available

pytestmark = pytest.mark.sampled("several sinks")

TOPIC = "copied"


class Stores:
    """A topic, a table of PostgreSQL, a log, a folder and a Delta table, and a query into all of them."""

    def __init__(self, spark: SparkSession, kafka: KafkaBroker, postgres: PostgresServer, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.kafka = kafka
        self.postgres = postgres
        self.topic = kafka.create_topic(fresh_name("stores"), partitions=2)
        self.table = f"public.{self.topic.replace('-', '_')}"
        postgres.ask(f"CREATE TABLE {self.table} (id int PRIMARY KEY, value text)")
        self.log = oncelog.open(folder / "log")
        self.log.create_topic(TOPIC, partitions=2)
        schema = spark.createDataFrame([], "id int, value string").schema
        DeltaTable.create(str(folder / "delta"), Schema.from_json(schema.json()))
        (folder / "in").mkdir()
        self._added = 0

    def add(self, *values: str) -> None:
        """One more batch."""
        lines = [json.dumps({"id": self._added + number, "value": value}) for number, value in enumerate(values)]
        self._added += len(values)
        (self.folder / "in" / f"{self._added}.json").write_text("\n".join(lines))

    def sink(self) -> TogetherSink:
        prefix = f"{self.topic}.p"
        return oncelog.spark.together(
            oncelog_tables.delta(path=str(self.folder / "delta"), transactionalIdPrefix=prefix),
            oncelog_files.sink(path=str(self.folder / "files"), transactionalIdPrefix=prefix),
            oncelog_postgres.sink(url=self.postgres.url(), table=self.table, transactionalIdPrefix=prefix),
            (
                oncelog_kafka.sink(
                    **{"kafka.bootstrap.servers": self.kafka.address},
                    topic=self.topic,
                    transactionalIdPrefix=prefix,
                ),
                lambda df: df.select("value"),
            ),
            (
                oncelog.spark.sink(path=self.log.path, topic=TOPIC, transactionalIdPrefix=prefix),
                lambda df: df.select("value"),
            ),
        )

    def run(self) -> TogetherSink:
        """Write what there is."""
        sink = self.sink()
        rows = self.spark.readStream.schema("id int, value string").option("maxFilesPerTrigger", 1)
        stream = rows.json(str(self.folder / "in"))
        run_available(stream.writeStream.foreachBatch(sink), self.folder / "checkpoint")
        return sink

    def found(self) -> list[list[str]]:
        """What each store has."""
        files = [str(file) for file in (self.folder / "files").glob("part-*.parquet")]
        in_files = arrow.dataset(files, format="parquet").to_table().column("value").to_pylist() if files else []
        return [
            sorted(DeltaTable(str(self.folder / "delta")).to_pyarrow_table().column("value").to_pylist()),
            sorted(in_files),
            [str(value) for (value,) in self.postgres.ask(f"SELECT value FROM {self.table} ORDER BY value")],
            values(self.kafka, self.topic),
            sorted((value or b"").decode() for value in values_in_log(self.log, topic=TOPIC)),
        ]


@pytest.fixture
def stores(spark: SparkSession, kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path) -> Iterator[Stores]:
    require_shims()
    found = Stores(spark, kafka, postgres, tmp_path)
    yield found
    close_logs()
    close_ledgers()
    found.log.close()


def test_each_batch_is_in_all_five_stores_once(stores: Stores) -> None:
    stores.add("a", "b", "c")
    with at(CrashPoint.ROUND_DECIDE, stop), pytest.raises(Exception, match=StoppedOnPurposeError.__name__):
        stores.run()
    assert stores.found() == [[]] * 5

    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(Exception, match=StoppedOnPurposeError.__name__):
        stores.run()
    report = stores.run().last_report

    assert report is not None
    assert report.is_replay
    assert stores.found() == [["a", "b", "c"]] * 5


def test_a_batch_that_spark_runs_again_is_written_into_none(stores: Stores) -> None:
    stores.add("a", "b")
    stores.add("c")
    stores.run()
    forget_last_commit(stores.folder / "checkpoint")
    report = stores.run().last_report

    assert report is not None
    assert report.is_replay
    assert stores.found() == [["a", "b", "c"]] * 5
