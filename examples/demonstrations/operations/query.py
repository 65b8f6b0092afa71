"""The queries: they copy a topic into another topic, or into files.

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

Sink = Callable[[Path, str], Any]


def into_topic(folder: Path, topic: str) -> Any:
    """Copies the flights into a topic."""
    return oncelog.spark.sink(path=str(folder / "log"), topic=topic, transactionalIdPrefix=topic)


def into_files(folder: Path, name: str) -> Any:
    """Copies the flights into a folder of files, with its ledger elsewhere."""
    return oncelog_files.sink(path=str(folder / "out"), znodes=str(folder / "ledger"), transactionalIdPrefix=name)


SINKS: dict[str, Sink] = {"copies": into_topic, "delayed": into_files}


def session() -> SparkSession:
    """A session for a log on this machine."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = oncelog.spark.configure(builder).getOrCreate()
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
    started = session()
    while not Path(sys.argv[2], f"{sys.argv[1]}.go").exists():
        time.sleep(0.1)
    run(started, Path(sys.argv[2]), sys.argv[1])
