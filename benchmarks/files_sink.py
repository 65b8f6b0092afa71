"""Runs a query into a folder of Parquet files, by oncelog's sink and by Spark's file sink."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog_files
from benchmarks.report import Finding, at_least, median, per_second
from oncelog.spark.kit.ledgers import close_ledgers

EXPLANATION = """\
A run is one query over the same files, a batch for each, from its start until all is written; runs of the two follow
each other in pairs. The folders are on this disk. The peer, `writeStream.format("parquet")`, is exactly once for
readers that use its own log of files, on a file system with atomic renames. It syncs nothing to the disk; oncelog
does."""

PAYLOAD = 92
"""Bytes of a row beside its id, which has 8."""

TARGET = 0.95

Into = Callable[[DataFrame, str], DataStreamWriter]
"""A query that writes into this folder."""


def run(*, quick: bool) -> list[Finding]:
    """Measure in turns, after one round that counts for nothing."""
    rows, batches, rounds = (400_000, 3, 3) if quick else (1_000_000, 5, 5)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = spark.range(0, rows * batches, 1, batches).selectExpr(
            "id", f"rpad(sha2(string(id), 256), {PAYLOAD}, 'x') AS value"
        )
        source.write.parquet(str(folder / "in"))
        seconds = [
            tuple(measured(spark, folder, into, rows * batches) for into in (by_oncelog, by_spark))
            for _ in range(rounds + 1)
        ][1:]
    spark.stop()
    return [finding(f"{batches} batches of {rows:,} rows of 100 bytes, Parquet", rows * batches, seconds)]


def finding(what: str, rows: int, seconds: list[tuple[float, ...]]) -> Finding:
    """Of the median pair."""
    ours, peer = (median([pair[side] for pair in seconds]) for side in (0, 1))
    ratio = median([theirs / own for own, theirs in seconds])
    return at_least(what, per_second(rows, ours), per_second(rows, peer), ratio, TARGET)


def measured(spark: SparkSession, folder: Path, into: Into, rows: int) -> float:
    """The seconds of one query."""
    stream = spark.readStream.schema("id long, value string").option("maxFilesPerTrigger", 1)
    out = folder / "out"
    writer = into(stream.parquet(str(folder / "in")), str(out)).option("checkpointLocation", str(folder / "checkpoint"))
    began = time.perf_counter()
    writer.trigger(availableNow=True).start().awaitTermination()
    took = time.perf_counter() - began
    found = spark.read.parquet(str(out)).count()
    if found != rows:
        raise AssertionError(f"{found} rows instead of {rows}")
    close_ledgers()
    shutil.rmtree(out)
    shutil.rmtree(folder / "checkpoint")
    return took


def by_oncelog(stream: DataFrame, out: str) -> DataStreamWriter:
    return stream.writeStream.foreachBatch(oncelog_files.sink(path=out, transactionalIdPrefix="measured"))


def by_spark(stream: DataFrame, out: str) -> DataStreamWriter:
    return stream.writeStream.format("parquet").option("path", out)
