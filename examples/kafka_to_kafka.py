"""Copies one Kafka topic to another, exactly once.

    python examples/kafka_to_kafka.py [--follow] [BROKERS [FROM TO FOLDER]]

Both topics must exist. FOLDER keeps the checkpoint; the topic oncelog-ledger says which batches are done. Run it again
to copy new records, or let it keep running with --follow.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import oncelog_kafka

defaults = ["localhost:9092", "flights", "copies", "/tmp/oncelog/kafka-to-kafka"]
arguments = [argument for argument in sys.argv[1:] if argument != "--follow"]
brokers, source, target, folder = arguments + defaults[len(arguments) :]
trigger = {"processingTime": "1 second"} if "--follow" in sys.argv else {"availableNow": True}

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
    .option("transactionalIdPrefix", "kafka-to-kafka")  # keep it for the life of the query
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(**trigger)  # availableNow stops when it has caught up
    .start()
)
query.awaitTermination()
rows = sum(progress["numInputRows"] for progress in query.recentProgress)
print(f"Copied {rows} records from {source} to {target}")
