"""The query: late departures of one Kafka topic go to another one.

Started with its settings as JSON, by any of the `doors`; only where its session comes from depends on them. With
``"sink": "oncelog"`` each batch is written exactly once; with ``"twin"`` each task sends its rows by an idempotent
producer, as sinks do that are at-least-once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, struct, to_json
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_kafka
from flights.data import FIELDS
from flights.pipeline import late_departures
from oncelog.crash_points import CrashPoint, reach

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

    def send(rows: Iterable[Row]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=brokers, enable_idempotence=True, retries=1_000)
        for row in rows:
            producer.send(target, value=row["value"].encode())
        producer.flush()
        producer.close()

    def write(df: DataFrame, batch_id: int) -> None:
        df.foreachPartition(send)
        reach(CrashPoint.SINK_DONE)

    return rows.writeStream.foreachBatch(write)


def session(settings: dict[str, Any]) -> SparkSession:
    """One of the server that the settings name, or one of this process, with the connector's jar."""
    if "remote" in settings:
        return SparkSession.builder.remote(settings["remote"]).getOrCreate()
    return oncelog_kafka.configure(SparkSession.builder.config(map=settings.get("spark", {}))).getOrCreate()


def main(settings: dict[str, Any]) -> None:
    spark = session(settings)
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
