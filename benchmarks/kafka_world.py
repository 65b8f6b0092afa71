"""What the benchmarks on Kafka share: a broker, a Spark with both connectors, queries that are timed and checked."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from benchmarks import data, kafka_peer
from oncelog.testing.kafka_broker import TV2_VERSION, KafkaBroker
from oncelog_kafka.sinks.batch_sink import KafkaSink

SPARK, ONCELOG = "kafka", "oncelog-kafka"
"""The two connectors, by their formats."""

SCHEMA = "key binary, value binary"

_BROKER_JVM = ("-Xmx2g", "-XX:TieredStopAtLevel=4", "-XX:+UseG1GC", "-XX:-UseSerialGC")
_BROKER_SETTINGS = {
    "broker.session.timeout.ms": "30000",  # creating a hundred partitions may hold up a heartbeat
    "num.io.threads": "8",
}
"""The harness starts brokers for tests: small, and quick to start and to come back. This one is to be fast."""
_CREATED_AT_ONCE = 1_000
"""Partitions. A broker refuses to create ten thousand with one request."""


Write = Callable[[DataFrame, str], DataStreamWriter]
"""What writes a stream into a topic."""


class World:
    """A broker, a session, and a folder."""

    def __init__(self, broker: KafkaBroker, spark: SparkSession, folder: Path) -> None:
        self.broker = broker
        self.spark = spark
        self.folder = folder
        self._numbers = itertools.count()

    def topic(self, partitions: int = 4) -> str:
        """A new topic that is ready in all its partitions.

        An idempotent producer that is early may never recover: batches overtake those that a partition could not take
        yet. No topic is deleted before the end; that would keep the broker busy while the next contender runs.
        """
        name = f"t{next(self._numbers)}"
        self.broker.create_topic(name, partitions=min(partitions, _CREATED_AT_ONCE))
        with self.broker.admin() as admin:
            for count in range(2 * _CREATED_AT_ONCE, partitions + 1, _CREATED_AT_ONCE):
                admin.create_partitions({name: count})
            while not _is_led(admin.describe_topics([name])[0], partitions):
                time.sleep(0.1)
        self.check(name, 0)  # asks the leader of every partition
        return name

    def source(self, connector: str, topic: str, **more: object) -> DataFrame:
        """A stream of the committed records of a topic."""
        reader = self.spark.readStream.format(connector).options(**self._reading(topic))
        return reader.options(**{name: str(value) for name, value in more.items()}).load()

    def files(self, folder: Path, **more: object) -> DataFrame:
        """A stream of the rows of parquet files."""
        reader = self.spark.readStream.schema(SCHEMA).options(**{name: str(value) for name, value in more.items()})
        return reader.parquet(str(folder))

    def read(self, connector: str, topic: str) -> DataFrame:
        """The committed records of a topic, as they are now."""
        return self.spark.read.format(connector).options(**self._reading(topic)).load()

    def run(self, writer: DataStreamWriter) -> tuple[float, StreamingQuery]:
        """Run a query until it has read what is there; returns the seconds and the query."""
        place = self.fresh("checkpoint")
        started = time.perf_counter()
        query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
        query.awaitTermination()
        taken = time.perf_counter() - started
        shutil.rmtree(place)
        return taken, query

    def sink(self, topic: str) -> KafkaSink:
        """The exactly-once sink, with a ledger of its own."""
        return oncelog_kafka.sink(**self._writing(topic), znodes=str(self.fresh("ledger")))

    def to_oncelog(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into the exactly-once sink, as it is."""
        return rows.writeStream.foreachBatch(self.sink(topic))

    def to_oncelog_by_name(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into the same sink by its format."""
        return self.to_oncelog_by_default(rows, topic).option("znodes", str(self.fresh("ledger")))

    def to_oncelog_by_default(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into the same sink by its format, with the ledger in a topic of the cluster."""
        return rows.writeStream.format(ONCELOG).options(**self._writing(topic))

    def to_spark(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into Spark's sink, as it is."""
        return rows.writeStream.format(SPARK).options(**self._writing(topic))

    def to_spark_at_256_kb(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into Spark's sink, with batches as large as those of oncelog's."""
        return rows.writeStream.format(SPARK).options(**self._writing(topic), **{"kafka.batch.size": "262144"})

    def to_spark_without_idempotence(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        """Into Spark's sink, by a producer that does not mind in which order its requests are taken."""
        return rows.writeStream.format(SPARK).options(**self._writing(topic), **{"kafka.enable.idempotence": "false"})

    def check(self, topic: str, rows: int) -> None:
        """A benchmark of lost rows would be a fast one."""
        found = self.read(ONCELOG, topic).select("partition").count()
        if found != rows:
            raise RuntimeError(f"{topic} holds {found} rows instead of {rows}")

    def write_files(self, rows: int, value_bytes: int, *, files: int) -> Path:
        """Parquet files of keys and values."""
        folder = self.fresh("files")
        folder.mkdir()
        for number in range(files):
            table = pa.Table.from_batches(data.batches(rows // files, value_bytes, seed=number))
            pq.write_table(table, folder / f"{number:04d}.parquet", compression="zstd")
        return folder

    def load(self, topic: str, rows: int, value_bytes: int) -> None:
        """Fill a topic, in one transaction of each partition."""
        files = self.write_files(rows, value_bytes, files=8)
        self.run(self.to_oncelog(self.files(files), topic))
        shutil.rmtree(files)
        self.check(topic, rows)

    def fresh(self, kind: str) -> Path:
        return self.folder / f"{kind}-{next(self._numbers)}"

    def _writing(self, topic: str) -> dict[str, str]:
        return writing(self.broker.address, topic)

    def _reading(self, topic: str) -> dict[str, str]:
        return reading(self.broker.address, topic)


def writing(address: str, topic: str) -> dict[str, str]:
    """Options of either sink."""
    return {"kafka.bootstrap.servers": address, "topic": topic}


def reading(address: str, topic: str) -> dict[str, str]:
    """Options of either source: the committed records, from the beginning."""
    return {
        "kafka.bootstrap.servers": address,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def _is_led(topic: Mapping[str, Any], partitions: int) -> bool:
    led = [one for one in topic["partitions"] if one["leader_id"] >= 0]
    return topic["error_code"] == 0 and len(led) == partitions


def interleaved(contenders: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """The seconds of each contender's runs, taken in turns; what comes before a first, warming one."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs + 1):
        for name, run in contenders.items():
            seconds = run()
            if number > 0:
                times[name].append(seconds)
    return times


@contextmanager
def world(folder: Path, *, has_peer: bool = True, jars: Sequence[Path] = ()) -> Iterator[World]:
    """A broker and a session of two cores with both connectors, or with oncelog's alone, and with further jars."""
    broker = KafkaBroker(folder / "broker", version=TV2_VERSION, java=_BROKER_JVM, settings=_BROKER_SETTINGS)
    try:
        broker.start()
        broker.wait_until_serving()
        spark = session(folder, [*jars, *(kafka_peer.jars() if has_peer else ())])
        yield World(broker, spark, folder)
        spark.stop()
    finally:
        broker.stop()


def session(folder: Path, jars: Sequence[Path]) -> SparkSession:
    """Two cores, oncelog's connector, and these jars."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.jars", ",".join(map(str, jars)))
    spark = (
        oncelog_kafka.configure(builder)
        .master("local[2]")
        .appName("oncelog-bench-kafka")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
