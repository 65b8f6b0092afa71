"""Spark reading the log to a sink that does nothing, beside Spark's parquet source over the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_least, median, per_second

EXPLANATION = """\
`spark.read` to the `noop` sink, of all columns and of key and value alone (`.schema("key binary, value binary")`);
the log is read read_committed. The peer is Spark's parquet source over the same keys, values, partitions, offsets and
timestamps (zstd, as Spark writes them)."""


def run(folder: Path, spark: SparkSession, *, quick: bool) -> list[Finding]:
    """Measure 100-byte and 1 kB values."""
    sizes = {100: 2_000_000 if quick else 8_000_000, 1000: 300_000 if quick else 1_500_000}
    return [
        found for size, rows in sizes.items() for found in _scan(folder / str(size), spark, size, rows, quick=quick)
    ]


def _scan(folder: Path, spark: SparkSession, value_bytes: int, rows: int, *, quick: bool) -> list[Finding]:
    with oncelog.open(folder / "log") as log:
        log.create_topic("t", partitions=4)
        with log.producer(transactional_id="load") as producer:
            producer.init_transactions()
            for number, batch in enumerate(data.batches(rows, value_bytes)):
                with producer.transaction():
                    producer.send_batch("t", batch, partition=number % 4)

    def read_log(columns: str | None = None) -> DataFrame:
        reader = spark.read.format("oncelog").option("path", str(folder / "log")).option("subscribe", "t")
        return (reader.schema(columns) if columns else reader).load()

    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    read_log().write.parquet(str(folder / "parquet"))
    contenders: dict[str, Callable[[], DataFrame]] = {
        "log, all columns": read_log,
        "parquet, all columns": lambda: spark.read.parquet(str(folder / "parquet")),
        "log, key and value": lambda: read_log("key binary, value binary"),
        "parquet, key and value": lambda: spark.read.parquet(str(folder / "parquet")).select("key", "value"),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(5 if quick else 10):
        for name, read in contenders.items():
            started = time.perf_counter()
            read().write.format("noop").mode("overwrite").save()
            if number >= 2:
                times[name].append(time.perf_counter() - started)
    assert_rows(folder / "parquet", rows)
    return [
        at_least(
            f"scan to noop, {columns}, {value_bytes}-byte values, {rows:,} rows",
            per_second(rows, median(times[f"log, {columns}"])),
            f"{per_second(rows, median(times[f'parquet, {columns}']))} parquet",
            median(times[f"parquet, {columns}"]) / median(times[f"log, {columns}"]),
            0.9 if value_bytes == 100 else None,
        )
        for columns in ("all columns", "key and value")
    ]


def assert_rows(folder: Path, rows: int) -> None:
    """A benchmark of lost rows would be a fast one."""
    found = sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
    if found != rows:
        raise RuntimeError(f"{folder} holds {found} rows instead of {rows}")
