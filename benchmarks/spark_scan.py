"""Spark reading the log to a sink that does nothing, beside Spark's parquet source over the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_least, median, per_second
from oncelog.spark.schema import read_columns, read_schema, to_read_batch

EXPLANATION = """\
`spark.read` to the `noop` sink, of all columns and of key and value alone. The log is read `read_committed`. The peer
is Spark's parquet source over the same keys, values, partitions, offsets and timestamps (zstd).

With oncelog's jar (`oncelog.spark.configure`) tasks read in the JVM, as those of parquet do. Without it, and from
object stores, they read in Python. Spark 4.3 takes the columns of a Python source through a socket, and turns them into
rows twice. So the second peer is a Python source that does nothing: it gives Spark the same record batch over and over.
No Python source can be faster than that one, apart from noise."""

PARTITIONS = 4
COLUMNS = {"all columns": None, "key and value": "key binary, value binary"}
READERS = {"jvm": True, "python": False}
"""Of the log, by name: whether they are the jar's."""


class IdleReader(DataSourceReader):
    """Gives as many rows as it is asked for, at no cost."""

    def __init__(self, columns: pa.Schema, rows: int, value_bytes: int) -> None:
        self._columns = columns
        self._rows = rows
        self._value_bytes = value_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(2 * PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        records = next(data.batches(data.ROWS_PER_BATCH, self._value_bytes))
        records = records.append_column("timestamp_ms", pa.array([0] * records.num_rows, pa.int64()))
        batch = to_read_batch(records, "t", 0, 0, self._columns)
        for given in range(0, self._rows // (2 * PARTITIONS), batch.num_rows):
            yield batch.slice(0, self._rows // (2 * PARTITIONS) - given)


class IdleSource(DataSource):
    """Options: `rows` in all, and `value_bytes`."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return IdleReader(read_columns(schema), int(self.options["rows"]), int(self.options["value_bytes"]))


def run(folder: Path, spark: SparkSession, *, quick: bool) -> list[Finding]:
    """Measure 100-byte and 1 kB values."""
    spark.dataSource.register(IdleSource)
    sizes = {100: 500_000 if quick else 8_000_000, 1000: 100_000 if quick else 1_500_000}
    return [
        found for size, rows in sizes.items() for found in _scan(folder / str(size), spark, size, rows, quick=quick)
    ]


def _scan(folder: Path, spark: SparkSession, value_bytes: int, rows: int, *, quick: bool) -> list[Finding]:
    _load(folder / "log", rows, value_bytes)
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    contenders = _contenders(spark, folder, rows, value_bytes)
    contenders["jvm", "all columns"]().write.parquet(str(folder / "parquet"))
    times: dict[tuple[str, str], list[float]] = {name: [] for name in contenders}
    for number in range(4 if quick else 10):
        for name, read in contenders.items():
            started = time.perf_counter()
            read().write.format("noop").mode("overwrite").save()
            if number >= 2:
                times[name].append(time.perf_counter() - started)
    assert_rows(folder / "parquet", rows)
    findings = []
    for columns in COLUMNS:
        jvm, python, parquet, idle = (median(times[name, columns]) for name in (*READERS, "parquet", "idle"))
        what = f"scan to noop, {columns}, {value_bytes}-byte values, {rows:,} rows"
        in_python, least = f"{what}, without the jar", 0.9 if value_bytes == 100 else None
        of_parquet, rate = f"{per_second(rows, parquet)} parquet", per_second(rows, python)
        findings += [
            at_least(what, per_second(rows, jvm), of_parquet, parquet / jvm, least),
            Finding(in_python, rate, of_parquet, parquet / python),
            Finding(in_python, rate, f"{per_second(rows, idle)} Python source that does nothing", idle / python),
        ]
    return findings


def _load(path: Path, rows: int, value_bytes: int) -> None:
    with oncelog.open(path) as log:
        log.create_topic("t", partitions=PARTITIONS)
        with log.producer(transactional_id="load") as producer:
            producer.init_transactions()
            for number, batch in enumerate(data.batches(rows, value_bytes)):
                with producer.transaction():
                    producer.send_batch("t", batch, partition=number % PARTITIONS)


def _contenders(
    spark: SparkSession, folder: Path, rows: int, value_bytes: int
) -> dict[tuple[str, str], Callable[[], DataFrame]]:
    """By source and columns, what reads them."""

    def named(columns: str | None, source: str, **options: object) -> DataFrame:
        reader = spark.read.format(source).options(**{name: str(value) for name, value in options.items()})
        return (reader.schema(columns) if columns else reader).load()

    def log(columns: str | None, is_jvm: bool) -> DataFrame:
        spark.conf.set("spark.oncelog.jvmReader", is_jvm)
        return named(columns, "oncelog", path=folder / "log", subscribe="t")

    found: dict[tuple[str, str], Callable[[], DataFrame]] = {}
    for name, columns in COLUMNS.items():
        for reader, is_jvm in READERS.items():
            found[reader, name] = partial(log, columns, is_jvm)
        found["parquet", name] = partial(_parquet, spark, folder / "parquet", columns)
        found["idle", name] = partial(named, columns, "idle", rows=rows, value_bytes=value_bytes)
    return found


def _parquet(spark: SparkSession, path: Path, columns: str | None) -> DataFrame:
    rows = spark.read.parquet(str(path))
    return rows.select("key", "value") if columns else rows


def assert_rows(folder: Path, rows: int) -> None:
    """A benchmark of lost rows would be a fast one."""
    found = sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
    if found != rows:
        raise RuntimeError(f"{folder} holds {found} rows instead of {rows}")
