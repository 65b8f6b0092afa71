"""Counts events per minute. A window is written once, when the watermark has passed its end.

python examples/windowed_aggregation.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import oncelog
import oncelog.spark

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-")
with oncelog.open(f"{folder}/log") as log:
    if not log.admin.list_topics():
        log.create_topic("clicks")
        log.create_topic("clicks-by-minute")
    with log.producer() as producer:
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
        for second in (0, 10, 20, 70, 80, 600):
            producer.send("clicks", value=b"click", timestamp_ms=int((noon + second) * 1000))

spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()
clicks = (
    spark.readStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("subscribe", "clicks")
    .option("startingOffsets", "earliest")
    .load()
)
by_minute = (
    clicks.withWatermark("timestamp", "2 minutes")  # how late a click may come
    .groupBy(F.window("timestamp", "1 minute"))
    .count()
)
query = (
    by_minute.select(
        F.date_format("window.start", "HH:mm").alias("key"),
        F.col("count").cast("string").alias("value"),
    )
    .writeStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("topic", "clicks-by-minute")
    .option("transactionalIdPrefix", "clicks-by-minute")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()

counts = spark.read.format("oncelog").option("path", f"{folder}/log").option("subscribe", "clicks-by-minute").load()
for row in counts.orderBy("key").collect():
    print(f"{row.key.decode()}: {row.value.decode()} clicks")
