"""Short streaming queries for tests: run to their end, and what their checkpoints hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

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


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a crash between the last batch and its entry in the commit log does."""
    newest = max(
        (file for file in (checkpoint / "commits").iterdir() if file.name.isdecimal()), key=lambda f: int(f.name)
    )
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
