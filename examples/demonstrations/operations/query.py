"""The queries: they copy a topic into another topic, into files, or into a topic of Kafka.

    python -m operations.query NAME FOLDER

starts a session, waits until somebody makes the file FOLDER/NAME.go, and runs one query until it has read all there is.
NAME is that of its sink.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import oncelog.spark
import oncelog_files
import oncelog_kafka

Sink = Callable[[Path, str], Any]


def into_topic(folder: Path, topic: str) -> Any:
    """Copies the flights into a topic."""
    return oncelog.spark.sink(path=str(folder / "log"), topic=topic, transactionalIdPrefix=topic)


def into_files(folder: Path, name: str) -> Any:
    """Copies the flights into a folder of files, with its ledger elsewhere."""
    return oncelog_files.sink(path=str(folder / "out"), znodes=str(folder / "ledger"), transactionalIdPrefix=name)


def into_kafka(**options: Any) -> Sink:
    """Copies the flights into a topic of Kafka."""

    def into_topic_of_kafka(folder: Path, topic: str) -> Any:
        brokers = {"kafka.bootstrap.servers": (folder / BROKERS).read_text()}
        return oncelog_kafka.sink(**brokers, topic=topic, **options)

    return into_topic_of_kafka


WRITES_AGAIN = {"transactionalIdPrefix": "brief", "onTimedOutParticipant": "rewrite", "participants": 2}
"""What the brokers abort of a decided batch."""

SINKS: dict[str, Sink] = {
    "copies": into_topic,
    "delayed": into_files,
    "late": into_kafka(transactionalIdPrefix="delayed", transactionTimeoutMs=600_000),
    "brief": into_kafka(**WRITES_AGAIN, transactionTimeoutMs=20_000),
    "patient": into_kafka(**WRITES_AGAIN, transactionTimeoutMs=600_000),
}

BROKERS = "brokers.txt"
"""A file in the folder with the address of the broker, if there is one."""


def session(folder: Path) -> SparkSession:
    """A session for a log on this machine, and for its broker if there is one."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = oncelog.spark.configure(builder)
    if (folder / BROKERS).exists():
        builder = oncelog_kafka.configure(builder)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def run(
    spark: SparkSession, folder: Path, name: str, *, checkpoint: str | None = None, topic: str | None = None
) -> None:
    """Run a query until it has read all there is.

    Args:
        spark: its session.
        folder: of the demonstration.
        name: of the query, and of its sink.
        checkpoint: if it is not the usual one.
        topic: that it writes to, if it is not the usual one.
    """
    flights = (
        spark.readStream.format("oncelog")
        .option("path", str(folder / "log"))
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        flights.select("value")
        .writeStream.foreachBatch(SINKS[name](folder, topic or name))
        .queryName(name)
        .option("checkpointLocation", str(folder / "checkpoints" / (checkpoint or name)))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    place = Path(sys.argv[2])
    started = session(place)
    while not (place / f"{sys.argv[1]}.go").exists():
        time.sleep(0.1)
    run(started, place, sys.argv[1])
