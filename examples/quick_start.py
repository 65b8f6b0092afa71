"""Writes a log, copies its late flights exactly once with Spark, and reads them back.

    python examples/quick_start.py [FOLDER]

FOLDER is temporary unless you name one. Run it twice with the same folder, and only new flights are copied.
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import oncelog
import oncelog.spark

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-")
log = oncelog.open(f"{folder}/log")
if not log.admin.list_topics():
    log.create_topic("flights", partitions=2)
    log.create_topic("late", partitions=2)

with log.producer(transactional_id="loader") as producer:
    producer.init_transactions()
    with producer.transaction():  # commits at the end, aborts on an exception
        for carrier, minutes in [("UA", 42), ("AA", 7), ("DL", 90)]:
            producer.send("flights", key=carrier.encode(), value=str(minutes).encode())

spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()
flights = (
    spark.readStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("subscribe", "flights")
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    flights.where(F.col("value").cast("string").cast("int") >= 15)
    .writeStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("topic", "late")
    .option("transactionalIdPrefix", "late")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()

with log.consumer(auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["late"])
    for record in consumer.poll(timeout_ms=5000):
        print(f"{(record.key or b'').decode()} was {(record.value or b'').decode()} minutes late")
log.close()
print(f"The log is in {folder}/log")
