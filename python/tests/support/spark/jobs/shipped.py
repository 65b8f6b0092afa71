"""A program for `spark-submit` that copies a topic by both doors of the sink. It is sent alone: it imports no tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark

SIZE = 40


def main(folder: Path) -> None:
    path = str(folder / "log")
    with oncelog.open(path) as log:
        for topic in ("in", "foreachBatch", "oncelog"):
            log.create_topic(topic, partitions=2)
        with log.producer(transactional_id="loader") as producer:
            producer.init_transactions()
            with producer.transaction():
                for number in range(SIZE):
                    producer.send("in", value=b"%d" % number)
    spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()
    for door in ("foreachBatch", "oncelog"):
        rows = (
            spark.readStream.format("oncelog")
            .option("path", path)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", SIZE // 2)
            .load()
            .select("value")
        )
        if door == "foreachBatch":
            writer = rows.writeStream.foreachBatch(oncelog.spark.sink(path=path, topic=door))
        else:
            writer = rows.writeStream.format(door).option("path", path).option("topic", door)
        checkpoint = (folder / f"checkpoint-{door}").as_uri()
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    ran = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first()
    (folder / "found.json").write_text(json.dumps({"driver": sys.executable, "executor": ran}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
