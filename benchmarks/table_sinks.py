"""Writes a batch into a Delta and an Iceberg table, by oncelog's sinks and the formats' own.

The formats' own writers need their jars, which Maven brings, and which there are for some releases of Spark only: it
runs on one of those.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Finding, at_least, median, per_second
from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableRound
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog_tables.batch_sink import TableTarget
from oncelog_tables.delta_tables import DeltaTables
from oncelog_tables.iceberg_tables import IcebergTables
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS, ICEBERG_LEDGERS
from oncelog_tables.ports import Tables

SPARK = "4.0.5"
"""A release of Spark for which there are the formats' own writers."""

EXPLANATION = f"""\
A batch is two tasks over a cache, into a new table on this disk. The peers are the formats' own writers, on Spark
{SPARK}. They are at least once: a replayed batch is appended again."""

JARS = "io.delta:delta-spark_2.13:4.0.0,org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
"""Of the formats."""

LEAST = 0.9

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.own": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.own.type": "hadoop",
}

PAYLOAD = 92
"""Bytes of a row beside its id, which has 8."""

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})

Write = Callable[[int], None]
"""Writes the batch into a new table of this number."""


def run(*, quick: bool) -> list[Finding]:
    """Measure in turns, after one round that counts for nothing."""
    rows, rounds = (500_000, 2) if quick else (5_000_000, 7)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        spark = session(folder)
        batch = spark.range(0, rows, 1, 2).selectExpr("id", f"rpad(string(id), {PAYLOAD}, 'x') AS value").cache()
        batch.count()
        pairs = {
            "Delta": (into_delta(batch, folder), own_delta(batch, folder)),
            "Iceberg": (into_iceberg(batch, folder), own_iceberg(batch)),
        }
        seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
        for number in range(rounds + 1):
            for name, pair in pairs.items():
                for write, times in zip(pair, seconds[name], strict=True):
                    times.append(measured(write, number))
        spark.stop()
    return [finding(name, rows, *of_both) for name, of_both in seconds.items()]


def finding(name: str, rows: int, ours: list[float], peer: list[float]) -> Finding:
    """Of the median pair."""
    ratio = median([theirs / own for own, theirs in zip(ours[1:], peer[1:], strict=True)])
    own, theirs = per_second(rows, median(ours[1:])), per_second(rows, median(peer[1:]))
    return at_least(f"{rows:,} rows of 100 bytes, {name}", own, theirs, ratio, LEAST)


def session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.jars.packages", JARS).config("spark.sql.catalog.own.warehouse", str(folder))
    return builder.config(map=SETTINGS).getOrCreate()


def measured(write: Write, number: int) -> float:
    """The seconds of one batch. What earlier ones wrote is on the disk before."""
    os.sync()
    began = time.perf_counter()
    write(number)
    return time.perf_counter() - began


def into_delta(batch: DataFrame, folder: Path) -> Write:
    """By the sink, all phases."""

    def write(number: int) -> None:
        place = str(folder / f"delta-{number}")
        DeltaTable.create(place, SCHEMA)
        by_sink(batch, folder, DELTA_LEDGERS, DeltaTables({}), place, number)
        shutil.rmtree(place)

    return write


def into_iceberg(batch: DataFrame, folder: Path) -> Write:
    """The same, with a catalog in an SQLite file."""
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/iceberg"}
    catalog = load_catalog("bench", **properties)
    catalog.create_namespace("bench")

    def write(number: int) -> None:
        name = f"bench.iceberg_{number}"
        place = catalog.create_table(name, SCHEMA).location()
        by_sink(batch, folder, ICEBERG_LEDGERS, IcebergTables("bench", properties), name, number)
        shutil.rmtree(place.removeprefix("file://"))

    return write


def by_sink(
    batch: DataFrame, folder: Path, ledgers: LedgerKind[CommittableRound], tables: Tables, name: str, number: int
) -> None:
    with closing(metadata.open_metadata(str(folder / "ledger"))) as store:
        request = BatchRequest("bench", "query", "sink", "run", number, "offsets")
        BatchDriver(TableTarget(store, ledgers, tables, name)).run(Batch(request, SparkJob(batch)))


def own_delta(batch: DataFrame, folder: Path) -> Write:
    """By Delta's own writer."""

    def write(number: int) -> None:
        place = str(folder / f"own-delta-{number}")
        DeltaTable.create(place, SCHEMA)
        batch.write.format("delta").mode("append").save(place)
        shutil.rmtree(place)

    return write


def own_iceberg(batch: DataFrame) -> Write:
    """By Iceberg's own writer."""

    def write(number: int) -> None:
        name = f"own.bench.iceberg_{number}"
        batch.sparkSession.sql(f"CREATE TABLE {name} (id bigint, value string) USING iceberg")
        batch.writeTo(name).append()
        batch.sparkSession.sql(f"DROP TABLE {name} PURGE")

    return write
