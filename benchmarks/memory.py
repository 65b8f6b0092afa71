"""Peak memory of a writer and of a reader task while its batch grows tenfold."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_most
from oncelog.log import snapshot, topics
from oncelog.spark import reading, schema, writing
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import commit_once, write_task
from oncelog.spark.options import parse_sink_options
from oncelog.spark.planner import ReadTask
from oncelog.types import IsolationLevel

EXPLANATION = """\
A task in a process of its own writes (or reads) a batch of 100-byte rows, spread over 16 log partitions. The table
compares its peak resident memory for ten times the rows with that for the smaller batch."""


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure a writer and a reader."""
    small = 500_000 if quick else 1_000_000
    with oncelog.open(folder / "log") as log:
        log.create_topic("t", partitions=16)
    path = str(folder / "log")
    return [_grown(name, task, path, small) for name, task in (("writer", _write), ("reader", _read))]


def _grown(name: str, task: Callable[[str, int], None], path: str, small: int) -> Finding:
    before, after = (_peak_mib(task, path, rows) for rows in (small, small * 10))
    return at_most(
        f"peak memory of a {name} task, {small * 10:,} rows to {small:,}",
        f"{after:.0f} MiB",
        f"{before:.0f} MiB for {small:,} rows",
        after / before,
        1.2,
    )


def _peak_mib(task: Callable[[str, int], None], path: str, rows: int) -> float:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=_measured, args=(task, path, rows, results))
    process.start()
    peak = results.get()
    process.join()
    return peak


def _measured(task: Callable[[str, int], None], path: str, rows: int, results: multiprocessing.Queue[float]) -> None:
    task(path, rows)
    results.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _write(path: str, rows: int) -> None:
    with oncelog.open(path) as log:
        options = parse_sink_options({"path": path, "topic": "t"}, Use.BATCH_WRITE)
        commit_once(log, writing.write_all(write_task(log, options), data.batches(rows, 100)))


def _read(path: str, rows: int) -> None:
    with oncelog.open(path) as log:
        store, files = log.services.store, log.services.new_index_files()
        partition = topics.partitions_of(store, "t")[0]
        isolation = IsolationLevel.READ_COMMITTED
        end = snapshot.take(store, [partition]).end(partition, isolation)
        found = snapshot.visible_range(store, files, partition, 0, end, isolation, max_records=rows // 16)
        columns = schema.read_columns(schema.read_schema(include_headers=False))
        for _ in reading.record_batches(ReadTask(path, "t", 0, found.slices), columns):
            pass
