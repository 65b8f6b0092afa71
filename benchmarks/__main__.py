"""Runs the benchmarks and writes docs/benchmarks.md (the full run only).

python -m benchmarks [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

import oncelog.spark
from benchmarks import (
    appends,
    latency,
    memory,
    on_zookeeper,
    planning,
    report,
    round_trips,
    spark_scan,
    spark_sink,
    spark_small,
    transactions,
)
from benchmarks.report import Finding, Section

PLAIN: dict[str, tuple[str, str, Callable[..., list[Finding]]]] = {
    "transactions": ("Small transactions", transactions.EXPLANATION, transactions.run),
    "latency": ("From a commit to a reader", latency.EXPLANATION, latency.run),
    "appends": ("Large appends", appends.EXPLANATION, appends.run),
    "planning": ("Planning behind a long history", planning.EXPLANATION, planning.run),
    "round-trips": ("Round trips of a micro-batch", round_trips.EXPLANATION, round_trips.run),
    "zookeeper": ("On ZooKeeper", on_zookeeper.EXPLANATION, on_zookeeper.run),
    "memory": ("Memory of a task", memory.EXPLANATION, memory.run),
}
ON_SPARK: dict[str, tuple[str, str, Callable[..., list[Finding]]]] = {
    "scan": ("Spark reads", spark_scan.EXPLANATION, spark_scan.run),
    "sink": ("Spark writes", spark_sink.EXPLANATION, spark_sink.run),
    "small": ("Small micro-batches", spark_small.EXPLANATION, spark_small.run),
}


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under three minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=[*PLAIN, *ON_SPARK], help="these benchmarks alone")
    options = parser.parse_args(arguments)
    wanted = options.only or [*PLAIN, *ON_SPARK]
    folder = Path(tempfile.mkdtemp(prefix="oncelog-bench-"))
    try:
        sections = list(_run(wanted, folder, quick=options.quick))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.quick and options.only is None:
        report.write_page(sections, "make bench")
        print(f"wrote {report.PAGE}")
    return 0


def _run(wanted: Sequence[str], folder: Path, *, quick: bool) -> list[Section]:
    sections = []
    spark: SparkSession | None = None
    for name in wanted:
        heading, explanation, run = {**PLAIN, **ON_SPARK}[name]
        place = folder / name
        place.mkdir()
        if name in ON_SPARK:
            spark = spark or _session(folder)
            run = partial(run, spark=spark)
        sections.append(report.section(heading, explanation, partial(run, place, quick=quick)))
        shutil.rmtree(place)
    if spark is not None:
        spark.stop()
    return sections


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        oncelog.spark.configure(SparkSession.builder)
        .master("local[*]")
        .appName("oncelog-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
