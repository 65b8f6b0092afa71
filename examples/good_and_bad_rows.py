"""Parses JSON: good rows go to one topic, bad ones to another. Both appear together or not at all.

python examples/good_and_bad_rows.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import oncelog
import oncelog.spark

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-")
with oncelog.open(f"{folder}/log") as log:
    if not log.admin.list_topics():
        for topic in ("raw", "good", "bad"):
            log.create_topic(topic, partitions=2)
    with log.producer() as producer:
        for text in (b'{"flight": 1, "late": 15}', b'{"flight": 2, "late": "no', b'{"flight": 3, "late": 0}'):
            producer.send("raw", value=text)

spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()
raw = (
    spark.readStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("subscribe", "raw")
    .option("startingOffsets", "earliest")
    .load()
)
parsed = raw.withColumn("row", F.from_json(F.col("value").cast("string"), "flight INT, late INT"))
query = (
    parsed.select(
        "key",
        "value",
        F.when(F.col("row.flight").isNull() | F.col("row.late").isNull(), "bad").otherwise("good").alias("topic"),
    )  # without the option `topic`, each row names its own
    .writeStream.format("oncelog")
    .option("path", f"{folder}/log")
    .option("transactionalIdPrefix", "parser")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # stops when it has caught up; without it the query keeps running
    .start()
)
query.awaitTermination()

for topic in ("good", "bad"):
    rows = spark.read.format("oncelog").option("path", f"{folder}/log").option("subscribe", topic).load()
    print(f"{topic}:", sorted(row.value.decode() for row in rows.select("value").collect()))
