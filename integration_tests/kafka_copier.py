"""A query that copies Kafka topics: ``python -m integration_tests.kafka_copier FILE``, for tests that disturb it.

It is the program of a user whose supervisor starts the query again when it fails, from source to exactly-once sink. The
tests make it wait at gates: the crash points of the sink, and `WRITE`, where one part of a batch is prepared while the
others wait for their rows. The settings come in a file, as secrets do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oncelog_kafka
from oncelog.crash_points import arm
from tests.support.spark.jobs.sessions import run_while_watched, spark_session

WRITE = "write"
"""The gate in the tasks of a batch, all but the first."""

PAUSE_S = 0.05
RESTART_S = 1

PARENT = os.getppid()


def main(settings: dict[str, Any]) -> None:
    gates = settings["gates"]
    arm(lambda point: wait_at(gates, point))
    own = {"spark.jars": oncelog_kafka.jars(), "spark.ui.showConsoleProgress": "false"}
    with spark_session(settings={**own, **settings["spark"]}) as spark:
        while not is_over(settings):
            try:
                copy(spark, settings)
            except StreamingQueryException as error:
                say(f"error {type(error).__name__}")
                say(str(error))
                time.sleep(RESTART_S)
    say("done")


def is_over(settings: dict[str, Any]) -> bool:
    """Whether the program is told to end, or whoever started it is gone."""
    return Path(settings["stop"]).exists() or os.getppid() != PARENT


def copy(spark: SparkSession, settings: dict[str, Any]) -> None:
    """Run the query until it fails, or all is over; says what can be said of it."""
    sink = oncelog_kafka.sink(**settings["sink"])

    def write(rows: DataFrame, batch_id: int) -> None:
        try:
            sink(rows, batch_id)
        except Exception as error:
            say(f"error {type(error).__name__}")
            raise
        say(f"batch {sink.last_report}")

    rows = spark.readStream.format("oncelog-kafka").options(**settings["source"]).load().select("partition", "value")
    rows.explain(extended=True)
    query = (
        rows.mapInArrow(waiting_at(settings["gates"]), "partition int, value binary")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", settings["checkpoint"])
        .start()
    )
    while query.isActive and not is_over(settings):
        time.sleep(PAUSE_S)
    if query.isActive:
        query.explain(extended=True)
        say(f"progress {query.lastProgress}")
        query.stop()
    run_while_watched(query)


def waiting_at(gates: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What rows go through: all but those of the first task wait for the gate."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() > 0:
            wait_at(gates, WRITE)
        yield from batches

    return pass_on


def wait_at(gates: str, name: str) -> None:
    """Wait while the gate of that name is closed; says that somebody stands there."""
    gate = Path(gates, name)
    if gate.exists():
        Path(gates, f"{name}.reached").touch()
        while gate.exists():
            time.sleep(PAUSE_S)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
