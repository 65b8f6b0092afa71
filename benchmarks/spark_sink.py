"""Structured Streaming into the exactly-once sinks, beside Spark's parquet file sink, from the same files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_least, median, per_second
from benchmarks.spark_scan import assert_rows

EXPLANATION = """\
A stream reads parquet files of keys and values (AvailableNow, one query for each run). Three sinks write it:
`foreachBatch` with the exactly-once sink, `writeStream.format('oncelog')`, and Spark's parquet file sink with zstd."""

FILES = 8


def run(folder: Path, spark: SparkSession, *, quick: bool) -> list[Finding]:
    """Measure 100-byte and 1 kB values."""
    sizes = {100: 2_000_000 if quick else 8_000_000, 1000: 300_000 if quick else 1_500_000}
    return [
        found for size, rows in sizes.items() for found in _sink(folder / str(size), spark, size, rows, quick=quick)
    ]


def _sink(folder: Path, spark: SparkSession, value_bytes: int, rows: int, *, quick: bool) -> list[Finding]:
    source = folder / "source"
    _write_source(source, rows, value_bytes)
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    contenders: dict[str, Callable[[DataFrame, Path], StreamingQuery]] = {
        "foreachBatch": _start_foreach_batch,
        "format": _start_format,
        "parquet": _start_parquet,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(3 if quick else 6):
        for name, start in contenders.items():
            place = folder / f"{name}-{number}"
            if name != "parquet":
                with oncelog.open(place / "out") as log:
                    log.create_topic("t", partitions=4)
            rows_in = spark.readStream.schema("key binary, value binary").parquet(str(source))
            started = time.perf_counter()
            start(rows_in, place).awaitTermination()
            if number >= 1:
                times[name].append(time.perf_counter() - started)
            _check(spark, name, place, rows)
            shutil.rmtree(place)
    peer = median(times["parquet"])
    return [
        at_least(
            f"stream into the sink ({name}), {value_bytes}-byte values, {rows:,} rows",
            per_second(rows, median(times[name])),
            f"{per_second(rows, peer)} parquet",
            peer / median(times[name]),
            1.0 if value_bytes == 100 and name == "foreachBatch" else None,
        )
        for name in ("foreachBatch", "format")
    ]


def _write_source(folder: Path, rows: int, value_bytes: int) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        table = pa.Table.from_batches(data.batches(rows // FILES, value_bytes, seed=number))
        pq.write_table(table, folder / f"{number}.parquet", compression="zstd")


def _start_foreach_batch(rows: DataFrame, place: Path) -> StreamingQuery:
    sink = oncelog.spark.sink(path=str(place / "out"), topic="t", transactionalIdPrefix="bench")
    return (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _start_format(rows: DataFrame, place: Path) -> StreamingQuery:
    return (
        rows.writeStream.format("oncelog")
        .option("path", str(place / "out"))
        .option("topic", "t")
        .option("transactionalIdPrefix", "bench")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _start_parquet(rows: DataFrame, place: Path) -> StreamingQuery:
    return (
        rows.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _check(spark: SparkSession, name: str, place: Path, rows: int) -> None:
    if name == "parquet":
        assert_rows(place / "out", rows)
        return
    found = spark.read.format("oncelog").option("path", str(place / "out")).option("subscribe", "t").load().count()
    if found != rows:
        raise RuntimeError(f"{place} holds {found} rows instead of {rows}")
