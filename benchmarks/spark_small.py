"""What a small micro-batch costs, by the exactly-once sinks into a log and by Spark's parquet file sink."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_most, median
from benchmarks.spark_sink import OURS, PEERS, Into, by_name, finished, foreach_batch, parquet

EXPLANATION = """\
A query runs many micro-batches of 1,000 rows of 100-byte values, repartitioned to the given number of tasks, into a
topic of four partitions. The figures are medians of the time that Spark spends in a batch's `addBatch`, without the
first three batches, over queries that take turns. The peer is Spark's parquet file sink at its defaults; it waits for
no disk, and oncelog for two."""

ROWS: Final = 1_000
WARMING: Final = 3
TASKS: Final = (2, 8)
MOST: Final = 0.8
"""Of the peer's time."""


def run(folder: Path, spark: SparkSession, *, quick: bool) -> list[Finding]:
    """Measure batches of two and of eight tasks."""
    batches, rounds = (8, 1) if quick else (25, 3)
    source = folder / "source"
    source.mkdir()
    for number, batch in enumerate(data.batches(batches * data.ROWS_PER_BATCH, 100)):
        pq.write_table(pa.Table.from_batches([batch.slice(0, ROWS)]), source / f"{number:04}.parquet")
    return [found for tasks in TASKS for found in _measured(folder, spark, source, tasks, rounds)]


def _measured(folder: Path, spark: SparkSession, source: Path, tasks: int, rounds: int) -> list[Finding]:
    contenders: dict[str, Into] = {
        "foreachBatch": foreach_batch,
        "format": by_name,
        "parquet": partial(parquet, codec=PEERS[-1]),
    }
    times_ms: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, into in contenders.items():
            place = folder / f"{name}-{tasks}-{number}"
            if name in OURS:
                with oncelog.open(place / "out") as log:
                    log.create_topic("t", partitions=4)
            rows = spark.readStream.schema("key binary, value binary").option("maxFilesPerTrigger", 1)
            batches = rows.parquet(str(source)).repartition(tasks)
            times_ms[name].append(add_batch_ms(finished(into(batches, place), place)))
            shutil.rmtree(place)
    peer = median(times_ms["parquet"])
    return [
        at_most(
            f"batch of {ROWS:,} rows, {tasks} tasks: {name}",
            f"{median(times_ms[name]):.0f} ms",
            f"{peer:.0f} ms parquet",
            median(times_ms[name]) / peer,
            MOST,
        )
        for name in OURS
    ]


def add_batch_ms(query: StreamingQuery) -> float:
    """The median of the time that Spark spent in `addBatch`, without the first batches."""
    found = [progress.durationMs["addBatch"] for progress in query.recentProgress if progress.numInputRows]
    return median(found[WARMING:])
