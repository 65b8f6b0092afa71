"""Copies a topic of a log to a Kafka topic, exactly once.

    python examples/log_to_kafka.py [BROKERS [TOPIC FOLDER]]

The Kafka topic must exist. Each run first writes three records to the log in FOLDER, so there is something to copy.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark
import oncelog_kafka

defaults = ["localhost:9092", "copies", "/tmp/oncelog/log-to-kafka"]
brokers, topic, folder = sys.argv[1:] + defaults[len(sys.argv) - 1 :]

with oncelog.open(f"{folder}/log") as log:
    if not log.admin.list_topics():
        log.create_topic("flights", partitions=2)
    with log.producer(transactional_id="loader") as producer:
        producer.init_transactions()
        with producer.transaction():
            for carrier in ("UA", "AA", "DL"):
                producer.send("flights", key=carrier.encode(), value=b"departed")

builder = oncelog_kafka.configure(oncelog.spark.configure(SparkSession.builder))  # one jar for each end
spark = builder.getOrCreate()
query = (
    spark.readStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("subscribe", "flights")
    .option("startingOffsets", "earliest")
    .load()
    .select("key", "value")
    .writeStream.format("oncelog-kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("topic", topic)
    .option("transactionalIdPrefix", "from-log")  # keep it for the life of the query
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()
rows = sum(progress["numInputRows"] for progress in query.recentProgress)
print(f"Copied {rows} records to {topic}")
