"""The Spark driver that is killed: ``python -m integration_tests.soak.queries SETTINGS`` copies the source by queries.

On oncelog's log there are two, one through each door of the sink; on Kafka there is one. They go on until they are
killed, fail, or whoever started them is gone.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import oncelog.spark
from integration_tests.soak.records import SOURCE
from tests.support.spark import spark_home

ROWS_PER_BATCH = 400_000
PAUSE_S = 0.1


def session(settings: Mapping[str, Any]) -> SparkSession:
    os.environ |= spark_home.environment()
    builder = SparkSession.builder.master(settings["master"])
    if "brokers" in settings:
        import oncelog_kafka

        builder = oncelog_kafka.configure(builder)
    chosen = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": spark_home.jvm_options(),
        "spark.executor.extraJavaOptions": spark_home.jvm_options(),
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "8",
        "spark.local.dir": f"{settings['folder']}/spark",
        "spark.sql.warehouse.dir": f"{settings['folder']}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        # All of them are read for the history when the run is over.
        "spark.sql.streaming.minBatchesToRetain": "1000000",
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def source(spark: SparkSession, query: str, settings: Mapping[str, Any]) -> DataFrame:
    """The source of a query, whose group holds its progress."""
    if "brokers" in settings:
        reader = spark.readStream.format("oncelog-kafka").option("kafka.bootstrap.servers", settings["brokers"])
    else:
        reader = spark.readStream.format("oncelog").options(**settings["log"])
    limited = reader.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).option("startingOffsets", "earliest")
    return limited.option("subscribe", SOURCE).option("groupId", query).load().select("key", "value", "partition")


def start(rows: DataFrame, query: str, settings: Mapping[str, Any]) -> Any:
    """Start a query that copies to the topic of its name."""
    options = {"topic": query, "transactionalIdPrefix": f"{query}.sink", "groupId": query}
    if "brokers" in settings:
        import oncelog_kafka

        sink = oncelog_kafka.sink(
            **{"kafka.bootstrap.servers": settings["brokers"], "znodes": settings["ledger"], **options}
        )
        writer = rows.writeStream.foreachBatch(sink)
    elif query == "format":
        writer = rows.writeStream.format("oncelog").options(**settings["log"], **options)
    else:
        writer = rows.writeStream.foreachBatch(oncelog.spark.sink(**settings["log"], **options))
    checkpoint = str(Path(settings["folder"], "checkpoints", query))
    return writer.option("checkpointLocation", checkpoint).trigger(processingTime="200 milliseconds").start()


def main(settings: Mapping[str, Any]) -> None:
    spark = session(settings)
    queries = [start(source(spark, query, settings), query, settings) for query in settings["queries"]]
    parent = os.getppid()
    while all(query.isActive for query in queries) and os.getppid() == parent:
        time.sleep(PAUSE_S)
    for query in queries:
        if (problem := query.exception()) is not None:
            raise problem


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception:  # noqa: BLE001 - whatever it is, this life is over, and Spark would not let it end at once
        traceback.print_exc()
        os._exit(1)
