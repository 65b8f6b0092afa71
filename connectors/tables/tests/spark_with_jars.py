"""Runs SQL in an older Spark with the jars of a format, its own reader and writer: it imports nothing of ours.

python spark_with_jars.py SETTINGS    takes statements from its input, one JSON text a line, and prints the rows of each
                                      result, one JSON array a line
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(settings: dict[str, str]) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        found = spark.sql(json.loads(line))
        rows = found.selectExpr("to_json(struct(*)) AS row").collect() if found.columns else []
        sys.stdout.write(f"RESULT {json.dumps([json.loads(row['row']) for row in rows])}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
