"""The process that is killed: late departures of one Kafka topic go to another one.

Run as ``python -m kafka_flights.query <settings as JSON>``. With ``"sink": "oncelog"`` each batch is written exactly
once; with ``"twin"`` each task sends its rows by an idempotent producer, as sinks do that are at-least-once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, struct, to_json
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from flights.data import FIELDS
from flights.pipeline import JVM_OPTIONS, late_departures
from oncelog.crash_points import CrashPoint, kill_once_at
from oncelog.testing import faults
from oncelog_kafka.crash_points import KafkaCrashPoint

ROWS_PER_BATCH = 20_000
PAUSE_S = 0.3


def exactly_once(rows: DataFrame, settings: dict[str, Any]) -> DataStreamWriter:
    """The sink of oncelog."""
    return (
        rows.writeStream.format("oncelog-kafka")
        .option("kafka.bootstrap.servers", settings["brokers"])
        .option("topic", settings["target"])
        .option("znodes", f"{settings['folder']}/ledger")
        .option("transactionalIdPrefix", settings["target"])
        .option("groupId", settings["target"])
    )


def at_least_once(rows: DataFrame, settings: dict[str, Any]) -> DataStreamWriter:
    """A sink without transactions: what a task sent stays, whatever becomes of the batch."""
    brokers, target = settings["brokers"], settings["target"]
    dies_halfway = settings["crash_point"] == "halfway"
    mark = Path(settings["mark"])

    def send(rows: Iterable[Row]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=brokers, enable_idempotence=True, retries=1_000)
        for row in rows:
            producer.send(target, value=row["value"].encode())
        producer.flush()
        producer.close()

    def write(df: DataFrame, batch_id: int) -> None:
        df.foreachPartition(send)
        if dies_halfway:
            kill_once_at(CrashPoint.SINK_DONE, -os.getpgrp(), mark)(CrashPoint.SINK_DONE)

    return rows.writeStream.foreachBatch(write)


def main(settings: dict[str, Any]) -> None:
    for point in (*CrashPoint, *KafkaCrashPoint):
        if point == settings["crash_point"]:  # the sink's steps run in Python workers, which inherit this
            os.environ |= faults.killing_at(point, Path(settings["mark"]), pid=-os.getpgrp())
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark = (
        oncelog_kafka.configure(SparkSession.builder)
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.local.dir", f"{settings['folder']}/spark")
        .getOrCreate()
    )
    flights = (
        spark.readStream.format("oncelog-kafka")
        .option("kafka.bootstrap.servers", settings["brokers"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .load()
    )
    late = late_departures(flights).select(col("key"), to_json(struct(*FIELDS)).alias("value"))
    write = {"oncelog": exactly_once, "twin": at_least_once}[settings["sink"]]
    query = (
        write(late, settings)
        .option("checkpointLocation", f"{settings['folder']}/checkpoint")
        .trigger(processingTime="0 seconds")
        .start()
    )
    parent = os.getppid()
    while query.isActive and os.getppid() == parent:
        time.sleep(PAUSE_S)
    if (problem := query.exception()) is not None:
        raise problem


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
