"""Short streaming queries for tests: run to their end, and what their checkpoints hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog.spark
from oncelog.runtime import Log

Handler = Callable[[DataFrame, int], None]


def numbers(spark: SparkSession, journal: Path, until: int, name: str | None = None) -> DataFrame:
    """A stream that counts to `until`, one number a batch; see `JournalSource`."""
    reader = spark.readStream.format("journal").option("journal", str(journal)).option("until", until)
    return (reader if name is None else reader.name(name)).load()


def run(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Run a query to its end; what it fails with is raised."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


def run_batches(df: DataFrame, handler: Handler, checkpoint: Path) -> StreamingQuery:
    """Run `handler` on each micro-batch of `df`."""
    return run(df.writeStream.foreachBatch(handler), checkpoint)


def run_plan(df: DataFrame) -> None:
    """Compute every row and keep none."""
    df.write.format("noop").mode("overwrite").save()


def last_batch(checkpoint: Path) -> int:
    """The newest batch in the offset log."""
    return max(int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdecimal())


def logged_offsets(checkpoint: Path, batch_id: int, topic: str) -> dict[int, int]:
    """Where a batch of a query over one oncelog source ends, by partition of `topic`."""
    logged = json.loads((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])
    return {int(number): offset for number, offset in logged["topics"][topic]["offsets"].items()}


def forget_last_commit(checkpoint: Path) -> int:
    """Leave the checkpoint as a crash does between a batch and its entry among the commits; returns the batch."""
    newest = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    (checkpoint / "commits" / str(newest)).unlink()
    (checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    return newest


# On a log -------------------------------------------------------------------------------------------------------------

DOORS = ("oncelog", "foreachBatch")
"""The two ways into the sink: a function of foreachBatch, and a format."""

PATIENCE_S = 300
"""How long a query may take. A test that waits so long has failed; nothing is said about speed."""


def place(log: Log) -> dict[str, str]:
    """The options that say where a log is."""
    return {"path": log.path} if log.znodes is None else {"path": log.path, "znodes": log.znodes}


def stream(spark: SparkSession, log: Log, topic: str | None = "in", **options: object) -> DataFrame:
    """A stream of a topic from its beginning, unless the options say otherwise; None takes a default away."""
    chosen = _given({**place(log), "subscribe": topic, "startingOffsets": "earliest"}, options)
    return spark.readStream.format("oncelog").options(**chosen).load()


def table(spark: SparkSession, log: Log, topic: str | None = "in", **options: object) -> DataFrame:
    """A batch read of a topic."""
    return spark.read.format("oncelog").options(**_given({**place(log), "subscribe": topic}, options)).load()


def into(df: DataFrame, log: Log, door: str, **options: object) -> DataStreamWriter:
    """A query that writes `df` through one of the sink's doors, to the topic `out` if the options name none."""
    chosen = _given({**place(log), "topic": "out"}, options)
    if door == "foreachBatch":
        return df.writeStream.foreachBatch(oncelog.spark.sink(**chosen))
    return df.writeStream.format(door).options(**chosen)


def _given(defaults: Mapping[str, object], options: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in {**defaults, **options}.items() if value is not None}


def copy(df: DataFrame, log: Log, door: str, checkpoint: Path, **options: object) -> StreamingQuery:
    """Write all that is there now, and end; what the query fails with is raised."""
    return run_available(into(df, log, door, **options), checkpoint)


def run_available(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Run a query up to what is there at its start."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(PATIENCE_S), "the query takes too long"
    finally:
        query.stop()
    return query


class Rows:
    """A foreachBatch function that keeps the rows of each batch."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns or ("value",)
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = df.selectExpr(*self._columns).collect()

    def all(self) -> list[Row]:
        """Of all batches, one after the other; a batch has an order within partitions only."""
        return [row for _, batch in sorted(self.batches.items()) for row in batch]

    def values(self) -> list[Any]:
        """The first column of all rows, sorted."""
        return sorted(row[0] for row in self.all())


def read_available(df: DataFrame, checkpoint: Path, *columns: str) -> Rows:
    """Read a stream up to what is there at the start, or what its checkpoint had not reached of it."""
    rows = Rows(*columns)
    run_available(df.writeStream.foreachBatch(rows), checkpoint)
    return rows
