"""Structured Streaming into the exactly-once sinks, beside Spark's parquet file sink, from the same files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_least, median, per_second
from benchmarks.spark_scan import assert_rows

EXPLANATION = """\
A stream reads parquet files of keys and values (AvailableNow, one query for each run). Four sinks write it, in turns:
`foreachBatch` with the exactly-once sink, `writeStream.format('oncelog')`, and Spark's parquet file sink, with zstd and
at its default codec, Snappy. *Text* is random, and compresses about as JSON does; *hex* is random digits; *JSON* is
events of users, each with a note of random letters; *repetitive* has 100 different values. Spark's sink waits for no
disk."""

FILES = 8

Into = Callable[[DataFrame, Path], DataStreamWriter]
"""A query that writes to a place."""


class Case(NamedTuple):
    """What is written.

    Attributes:
        kind: of the values, see `data.KINDS`.
        rows: of a run; the quick benchmark writes a fifth of them.
        least: what is promised of the ratio, by the peer's name.
    """

    kind: str
    value_bytes: int
    rows: int
    least: Mapping[str, float]


CASES: Final = (
    Case("text", 100, 8_000_000, {"zstd": 1.0}),
    Case("text", 1000, 1_500_000, {}),
    Case("hex", 100, 4_000_000, {"snappy": 1.2}),
    Case("JSON", 100, 4_000_000, {"snappy": 1.2}),
    Case("repetitive", 100, 4_000_000, {"snappy": 1.2}),
)
OURS = ("foreachBatch", "format")
PEERS = ("zstd", "snappy")


def run(folder: Path, spark: SparkSession, *, quick: bool) -> list[Finding]:
    """Measure all kinds of values, or in the quick benchmark text alone."""
    cases = CASES[:2] if quick else CASES
    return [
        found for case in cases for found in _measured(folder / f"{case.kind}-{case.value_bytes}", spark, case, quick)
    ]


def _measured(folder: Path, spark: SparkSession, case: Case, quick: bool) -> list[Finding]:
    source, rows = folder / "source", case.rows // 5 if quick else case.rows
    _write_source(source, rows, case)
    contenders: dict[str, Into] = {
        "foreachBatch": foreach_batch,
        "format": by_name,
        **{codec: partial(parquet, codec=codec) for codec in PEERS},
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(3 if quick else 6):
        for name, into in contenders.items():
            place = folder / f"{name}-{number}"
            if name in OURS:
                with oncelog.open(place / "out") as log:
                    log.create_topic("t", partitions=4)
            rows_in = spark.readStream.schema("key binary, value binary").parquet(str(source))
            started = time.perf_counter()
            finished(into(rows_in, place), place)
            if number >= 1:
                times[name].append(time.perf_counter() - started)
            _check(spark, name, place, rows)
            shutil.rmtree(place)
    rates = {name: per_second(rows, median(taken)) for name, taken in times.items()}
    what = f"{case.kind}, {case.value_bytes}-byte values, {rows:,} rows"
    return [
        at_least(
            f"{what}: {name}",
            rates[name],
            f"{rates[peer]} parquet, {peer}",
            median(times[peer]) / median(times[name]),
            case.least.get(peer),
        )
        for peer in PEERS
        for name in OURS
    ]


def _write_source(folder: Path, rows: int, case: Case) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        table = pa.Table.from_batches(data.batches(rows // FILES, case.value_bytes, seed=number, kind=case.kind))
        pq.write_table(table, folder / f"{number}.parquet", compression="zstd")


def foreach_batch(rows: DataFrame, place: Path) -> DataStreamWriter:
    """Into the log of a place by the exactly-once sink."""
    sink = oncelog.spark.sink(path=str(place / "out"), topic="t", transactionalIdPrefix="bench")
    return rows.writeStream.foreachBatch(sink)


def by_name(rows: DataFrame, place: Path) -> DataStreamWriter:
    """The same by `format`."""
    options = {"path": str(place / "out"), "topic": "t", "transactionalIdPrefix": "bench"}
    return rows.writeStream.format("oncelog").options(**options)


def parquet(rows: DataFrame, place: Path, codec: str) -> DataStreamWriter:
    """Into files of a place by Spark's own sink."""
    return rows.writeStream.format("parquet").option("compression", codec).option("path", str(place / "out"))


def finished(writer: DataStreamWriter, place: Path) -> StreamingQuery:
    """A query that has written all there is."""
    found = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    found.awaitTermination()
    return found


def _check(spark: SparkSession, name: str, place: Path, rows: int) -> None:
    if name in PEERS:
        assert_rows(place / "out", rows)
        return
    found = spark.read.format("oncelog").option("path", str(place / "out")).option("subscribe", "t").load().count()
    if found != rows:
        raise RuntimeError(f"{place} holds {found} rows instead of {rows}")
