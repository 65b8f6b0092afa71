"""A short life with all that tests do on Spark, for a JVM that records which classes that takes."""

from __future__ import annotations

import sys
from pathlib import Path

import oncelog
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import DOORS, copy, run_plan, stream, table


def main(jvm_options: str) -> None:
    with oncelog.open("log") as log, spark_session(jvm_options=jvm_options) as spark:
        log.admin.create_topic("in", partitions=2)
        log.admin.create_topic("out", partitions=2)
        with log.producer() as producer:
            for number in range(10):
                producer.send("in", value=str(number).encode())
        for door in DOORS:
            rows = stream(spark, log).select("key", "value", "partition")
            copy(rows, log, door, Path(door), transactionalIdPrefix=door)
        table(spark, log, "out").groupBy("value").count().orderBy("value").collect()
        run_plan(spark.range(10).mapInArrow(lambda batches: batches, "id long"))
        spark.range(10).write.parquet("table")
        spark.read.parquet("table").createOrReplaceTempView("table")
        spark.sql("select max(id) from table where id > 3").collect()


if __name__ == "__main__":
    main(sys.argv[1])
