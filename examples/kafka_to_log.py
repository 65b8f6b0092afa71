"""Copies a Kafka topic exactly once into a log, a folder that programs read without a broker.

    python examples/kafka_to_log.py [BROKERS [TOPIC FOLDER]]

The topic must exist.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark
import oncelog_kafka

defaults = ["localhost:9092", "flights", "/tmp/oncelog/kafka-to-log"]
brokers, topic, folder = sys.argv[1:] + defaults[len(sys.argv) - 1 :]

with oncelog.open(f"{folder}/log") as log:
    if not log.admin.list_topics():
        log.create_topic(topic, partitions=2)

builder = oncelog_kafka.configure(oncelog.spark.configure(SparkSession.builder))  # one jar for each end
spark = builder.getOrCreate()
query = (
    spark.readStream.format("oncelog-kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
    .select("key", "value")
    .writeStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("topic", topic)
    .option("transactionalIdPrefix", "from-kafka")  # keep it for the life of the query
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()

copied = spark.read.format("oncelog").option("path", f"{folder}/log").option("subscribe", topic).load()
print(f"The log in {folder}/log has {copied.count()} records")
