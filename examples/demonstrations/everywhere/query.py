"""The query: late departures of a Kafka topic, into each of several stores.

It is started with its settings as JSON. With ``"sink": "oncelog"`` a batch is in all stores or in none. With ``"twin"``
it is written into one store after the other, as people do it today.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import urllib3
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, struct, to_json

import oncelog.spark
import oncelog_files
import oncelog_kafka
import oncelog_postgres
import oncelog_search
import oncelog_tables
from everywhere.moments import TwinPoint
from flights.data import FIELDS
from flights.pipeline import late_departures
from oncelog.crash_points import reach

ROWS_PER_BATCH = 25_000
PAUSE_S = 0.3


def as_records(rows: DataFrame) -> DataFrame:
    """Late departures as Kafka's records."""
    return rows.select(col("flight").alias("key"), to_json(struct(*FIELDS)).alias("value"))


def exactly_once(settings: dict[str, Any]) -> Callable[[DataFrame, int], None]:
    """All stores under one decision, whose ledger is in Kafka."""
    name = settings["name"]
    lake = {f"catalog.{key}": value for key, value in settings["lake"].items()}
    return oncelog.spark.together(
        (oncelog_kafka.sink(**settings["kafka"], topic=name, transactionalIdPrefix=name), as_records),
        oncelog_postgres.sink(url=settings["postgres"], table=f"public.{name}", transactionalIdPrefix=name),
        oncelog_tables.iceberg(table=f"flights.{name}", catalog="lake", **lake, transactionalIdPrefix=name),
        oncelog_files.sink(path=settings["files"], transactionalIdPrefix=name),
        oncelog_search.sink(
            url=settings["search"], index=name, staging=settings["staging"], transactionalIdPrefix=name
        ),
    )


def one_after_the_other(settings: dict[str, Any]) -> Callable[[DataFrame, int], None]:
    """What a job writes today: each store has what was written before the kill, and gets it again."""
    name, brokers = settings["name"], settings["kafka"]["kafka.bootstrap.servers"]
    lake = settings["lake"]

    def send(rows: Iterable[Row]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=brokers, enable_idempotence=True, retries=1_000)
        for row in rows:
            producer.send(name, key=row["key"].encode(), value=row["value"].encode())
        producer.flush()
        producer.close()

    def index(rows: Iterable[Row]) -> None:
        lines = "".join(f'{{"index": {{}}}}\n{json.dumps(row.asDict())}\n' for row in rows)
        if lines:
            headers = {"Content-Type": "application/x-ndjson"}
            urllib3.request("POST", f"{settings['search']}/{name}/_bulk", body=lines, headers=headers)

    def write(df: DataFrame, batch_id: int) -> None:
        df.persist()
        as_records(df).foreachPartition(send)
        reach(TwinPoint.KAFKA)
        jdbc = df.write.format("jdbc").mode("append").option("url", settings["jdbc"]).option("user", "oncelog")
        jdbc.option("dbtable", f"public.{name}").option("driver", "org.postgresql.Driver").save()
        reach(TwinPoint.POSTGRES)
        load_catalog("lake", **lake).load_table(f"flights.{name}").append(df.toArrow())
        reach(TwinPoint.ICEBERG)
        df.write.mode("append").parquet(settings["files"])
        reach(TwinPoint.FILES)
        df.foreachPartition(index)
        reach(TwinPoint.SEARCH)
        df.unpersist()

    return write


def main(settings: dict[str, Any]) -> None:
    spark = oncelog_kafka.configure(SparkSession.builder.config(map=settings["spark"])).getOrCreate()
    flights = (
        spark.readStream.format("oncelog-kafka")
        .options(**settings["kafka"])
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .load()
    )
    write = {"oncelog": exactly_once, "twin": one_after_the_other}[settings["sink"]](settings)
    query = (
        late_departures(flights)
        .select(*FIELDS)
        .writeStream.foreachBatch(write)
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
