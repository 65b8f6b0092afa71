"""A client of Spark Connect, in an environment with neither a JVM nor py4j: makes the calls that it is told."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import oncelog.spark
import oncelog_kafka

Place = Mapping[str, Any]
"""A format and its options."""


def write(spark: SparkSession, values: list[str], to: Place) -> None:
    """Append rows with these values."""
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    rows.write.format(to["format"]).options(**to["options"]).mode("append").save()


def read(spark: SparkSession, of: Place) -> list[str]:
    """The values of a place, sorted."""
    rows = spark.read.format(of["format"]).options(**of["options"]).load()
    return sorted(row[0] for row in rows.selectExpr("cast(value as string)").collect())


def copy(spark: SparkSession, source: Place, sink: Place, checkpoint: str, *, is_endless: bool = False) -> int:
    """Copy values by a stream: all that are there, or until this client is killed; returns the batches it took."""
    writer = _stream(spark, source).writeStream.format(sink["format"]).options(**sink["options"])
    trigger = {"processingTime": "0 seconds"} if is_endless else {"availableNow": True}
    query = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
    query.awaitTermination()
    return len(query.recentProgress)


def write_in_function(spark: SparkSession, source: Place, to: Place, checkpoint: str, way: str = "rows") -> None:
    """Append each micro-batch in a function of foreachBatch, by a batch write; `way` names what it does to the rows."""

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        if way == "joined":
            rows = rows.crossJoin(rows.sparkSession.range(1)).select("value").distinct()
        elif way == "view":
            rows.createOrReplaceTempView("batch")
            rows = rows.sparkSession.sql("SELECT value FROM VALUES ('a') AS t (value) WHERE value IN (TABLE batch)")
        rows.write.format(to["format"]).options(**to["options"]).mode("append").save()

    writer = _stream(spark, source).writeStream.foreachBatch(write_batch)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def make_sink(spark: SparkSession, **options: str) -> None:
    oncelog.spark.sink(**options)


def make_kafka_sink(spark: SparkSession, **options: str) -> None:
    oncelog_kafka.sink(**options)


def call_sink(spark: SparkSession, sink: str) -> None:
    """Call a sink that another process made, and pickled, with rows of this session."""
    pickle.loads(base64.b64decode(sink))(spark.range(1), 0)


def configure(spark: SparkSession) -> None:
    oncelog.spark.configure(SparkSession.builder)


def _stream(spark: SparkSession, source: Place) -> DataFrame:
    return spark.readStream.format(source["format"]).options(**source["options"]).load().select("value")


CALLS: Mapping[str, Callable[..., Any]] = {
    call.__name__: call
    for call in (write, read, copy, write_in_function, make_sink, make_kafka_sink, call_sink, configure)
}


def main(settings: Mapping[str, Any]) -> None:
    assert find_spec("py4j") is None
    spark = SparkSession.builder.remote(settings["remote"]).getOrCreate()
    found = []
    for name, arguments in settings["calls"]:
        try:
            found.append(CALLS[name](spark, **arguments))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            found.append(f"{type(error).__name__}: {error}")
    Path(settings["found"]).write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
