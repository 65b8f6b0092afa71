"""The copier into Kafka: a query into the exactly-once sink, until a file appears, it fails, or it is killed.

It may be killed at a crash point, once, as the copier on Spark may, or wait at gates: the crash points of the sink, and
`WRITE`, where one part of a batch is prepared while the others wait for their rows. Where a supervisor starts it again
(`is_restarted`), it is the program of a user from source to sink, which an error of a query does not end. On a cluster
its rows may go through a shuffle into more `tasks`, expressions (`select`), and a fault in its tasks.
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
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from oncelog.crash_points import arm
from oncelog_kafka.crash_points import KafkaCrashPoint
from tests.support.spark.faults import FAULTS
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import PARENT, run_while_watched, spark_session

WRITE = "write"
"""The gate in the tasks of a batch, all but the first."""

PAUSE_S = 0.05
RESTART_S = 1


def main(settings: dict[str, Any]) -> None:
    if settings.get("crash_point"):
        die_at(settings["crash_point"], Path(settings["mark"]), KafkaCrashPoint)
    elif "gates" in settings:
        arm(lambda point: wait_at(settings["gates"], point))
    own = {"spark.jars": oncelog_kafka.jars(), "spark.ui.showConsoleProgress": "false"}
    master = settings.get("master", "local[2,4]")
    with spark_session(master, {**own, **settings.get("spark", {})}) as spark:
        while not is_over(settings):
            try:
                copy(spark, settings)
            except StreamingQueryException as error:
                if not settings.get("is_restarted"):
                    raise
                say(f"error {type(error).__name__}\n{error}")
                time.sleep(RESTART_S)
    say("done")


def is_over(settings: dict[str, Any]) -> bool:
    """Whether the program is told to end, or whoever started it is gone."""
    return Path(settings["stop"]).exists() or os.getppid() != PARENT


def copy(spark: SparkSession, settings: dict[str, Any]) -> None:
    """Run the query until it fails, or all is over; says what can be said of it."""
    rows = read(spark, **settings["source"])
    if "tasks" in settings:
        rows = rows.repartition(settings["tasks"])
    rows = rows.selectExpr(*settings.get("select", ["*"]))
    rows.explain(extended=True)
    if "fault" in settings:
        rows = rows.mapInArrow(FAULTS[settings["fault"]](Path(settings["folder"])), rows.schema)
    if "gates" in settings:
        rows = rows.mapInArrow(waiting_at(settings["gates"]), rows.schema)
    writer = written(rows, settings["sink"], settings.get("door")).option("checkpointLocation", settings["checkpoint"])
    query = writer.trigger(processingTime="200 milliseconds").start()
    while query.isActive and not is_over(settings):
        time.sleep(PAUSE_S)
    if query.isActive:
        query.explain(extended=True)
        say(f"progress {query.lastProgress}")
        query.stop()
    run_while_watched(query)


def written(rows: DataFrame, options: dict[str, Any], door: str | None) -> DataStreamWriter:
    """The query's writer by one of the sink's doors."""
    if door == "format":
        return rows.writeStream.format("oncelog-kafka").options(**options)
    sink = oncelog_kafka.sink(**options)

    def write(rows: DataFrame, batch_id: int) -> None:
        try:
            sink(rows, batch_id)
        except Exception as error:
            say(f"error {type(error).__name__}")
            raise
        say(f"batch {sink.last_report}")

    return rows.writeStream.foreachBatch(write)


def read(spark: SparkSession, *, format: str = "oncelog-kafka", schema: str | None = None, **options: Any) -> DataFrame:
    """A stream of values and their partitions, from Kafka or from files, whose batches then have two tasks."""
    reader = spark.readStream.format(format).options(**options)
    if schema is None:
        return reader.load().select("partition", "value")
    return reader.schema(schema).load().repartition(2, "partition")


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
