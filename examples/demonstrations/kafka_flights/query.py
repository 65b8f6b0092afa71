"""The query: it copies late departures from one Kafka topic to another.

It is started with its settings as JSON, in any of the ways in doors.py, which only affect where its session comes from.
With ``"sink": "oncelog"`` each batch is written exactly once. With ``"twin"`` each task sends its rows with an
idempotent producer, like at-least-once sinks.
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
    """Writes with the sink of oncelog."""
    return (
        rows.writeStream.format("oncelog-kafka")
        .option("kafka.bootstrap.servers", settings["brokers"])
        .option("topic", settings["target"])
        .option("transactionalIdPrefix", settings["target"])
        .option("groupId", settings["target"])
    )


def at_least_once(rows: DataFrame, settings: dict[str, Any]) -> DataStreamWriter:
    """A sink without transactions: what a task sent stays, whatever happens to the batch."""
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
    """A session on the server that the settings name, or in this process with the connector's jar."""
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
