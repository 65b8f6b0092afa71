"""The streaming query that both processes run: late departures of the topic `flights`, in micro-batches.

Only what happens to a batch differs between them; it is a foreachBatch function, as in any job of this kind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from flights.folders import FLIGHTS, GROUP, Folders
from flights.truth import LATE_MINUTES

TRIGGER = "500 milliseconds"
ON_THIS_MACHINE = "local[2]"
FLIGHT = "row BIGINT, flight STRING, origin STRING, dest STRING, dep_delay INT"

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for seconds starts several times faster without the optimising compiler and a parallel collector."""

WriteBatch = Callable[[DataFrame, int], None]


def late_departures(flights: DataFrame) -> DataFrame:
    """Columns key, partition and `FIELDS` of each record whose flight left late."""
    flight = from_json(col("value").cast("string"), FLIGHT).alias("flight")
    is_late = col("flight.dep_delay") >= LATE_MINUTES
    return flights.select("key", "partition", flight).where(is_late).select("key", "partition", "flight.*")


def start(spark: SparkSession, folders: Folders, write_batch: WriteBatch) -> StreamingQuery:
    """Start the query, or go on where its checkpoint ends."""
    flights = (
        spark.readStream.format("oncelog")
        .options(**folders.log_options)
        .option("subscribe", FLIGHTS)
        .option("startingOffsets", "earliest")
        .option("groupId", GROUP)
        .load()
    )
    return (
        late_departures(flights)
        .writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", str(folders.checkpoint))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def run(
    folders: Folders,
    attempt: int,
    write_batch: WriteBatch,
    *,
    master: str = ON_THIS_MACHINE,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run the query until SIGTERM, or until the process that started this one is gone.

    Args:
        folders: of the run.
        attempt: how often the query was started, this time included.
        write_batch: the foreachBatch function.
        master: of Spark.
        settings: more of Spark's settings.
    """
    is_asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_asked_to_stop.set())
    parent = os.getppid()
    spark = _session(folders, master, settings or {})
    folders.ready(attempt).touch()
    query = start(spark, folders, write_batch)
    while query.isActive and os.getppid() == parent:
        if is_asked_to_stop.wait(0.2):
            query.stop()
    spark.stop()
    if (problem := query.exception()) is not None:
        raise problem


def _session(folders: Folders, master: str, settings: Mapping[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = folders.root / "spark"
    builder = (
        SparkSession.builder.master(master)
        .appName("late departures")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "WARN")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
