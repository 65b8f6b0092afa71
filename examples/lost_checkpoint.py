"""Loses the checkpoint of a query, and resumes after the last committed batch: nothing is lost or copied twice.

A batch's offsets are committed to a consumer group together with its rows, so the log knows the query's position.

    python examples/lost_checkpoint.py [FOLDER]
"""

from __future__ import annotations

import shutil
import sys
import tempfile

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-")
log = oncelog.open(f"{folder}/log")
if not log.admin.list_topics():
    log.create_topic("orders")
    log.create_topic("copies")
spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()


def order(text: str) -> None:
    with log.producer() as producer:
        producer.send("orders", value=text.encode())


def copy_orders(**more: str) -> str:
    """Copy what is new, and return the query's id."""
    orders = (
        spark.readStream.format("oncelog")
        .option("path", f"{folder}/log")
        .option("subscribe", "orders")
        .option("groupId", "copier")
        .option("startingOffsets", "group")  # at the group's position; a new group is at the earliest offset
        .load()
    )
    query = (
        orders.select("value")
        .writeStream.format("oncelog")
        .option("path", f"{folder}/log")
        .option("topic", "copies")
        .option("groupId", "copier")  # commits the offsets of a batch with its rows
        .option("transactionalIdPrefix", "copier")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .options(**more)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query.id


order("three apples")
lost = copy_orders()
shutil.rmtree(f"{folder}/checkpoint")  # someone tidied up
order("one pear")
copy_orders(takeover=lost)  # without it the start is refused, with an error that names this id

copies = spark.read.format("oncelog").option("path", f"{folder}/log").option("subscribe", "copies").load()
print("Copied:", [row.value.decode() for row in copies.orderBy("offset").collect()])
log.close()
