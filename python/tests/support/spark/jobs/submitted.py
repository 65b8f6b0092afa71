"""A program for `spark-submit`: reads an empty topic with oncelog's jar."""

from __future__ import annotations

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark


def main() -> None:
    with oncelog.open("log") as log:
        log.create_topic("in")
        spark = oncelog.spark.configure(SparkSession.builder).getOrCreate()
        assert spark.read.format("oncelog").option("path", log.path).option("subscribe", "in").load().count() == 0
        spark.stop()


if __name__ == "__main__":
    main()
