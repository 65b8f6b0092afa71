"""Copies one Kafka topic to another, exactly once.

    python examples/kafka_to_kafka.py [BROKERS [FROM TO FOLDER]]

FOLDER keeps the checkpoint and the ledger, which says which batches are done. Run it again to copy new records.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import oncelog_kafka

defaults = ["localhost:9092", "flights", "copies", "/tmp/oncelog/kafka-to-kafka"]
brokers, source, target, folder = sys.argv[1:] + defaults[len(sys.argv) - 1 :]

spark = oncelog_kafka.configure(SparkSession.builder).getOrCreate()  # adds the connector's jar
query = (
    spark.readStream.format("oncelog-kafka")  # reads read_committed, unless you say otherwise
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .load()
    .select("key", "value")
    .writeStream.format("oncelog-kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("topic", target)
    .option("znodes", f"{folder}/ledger")
    .option("transactionalIdPrefix", "kafka-to-kafka")  # keep it for the life of the query
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()
rows = sum(progress["numInputRows"] for progress in query.recentProgress)
print(f"Copied {rows} records from {source} to {target}")
