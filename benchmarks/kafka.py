"""Runs the benchmarks on Kafka and writes their part of docs/benchmarks.md (the full run only).

python -m benchmarks.kafka [--quick] [--only NAME ...] [--spark RELEASE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    kafka_first,
    kafka_latency,
    kafka_peer,
    kafka_sink,
    kafka_source,
    kafka_through,
    kafka_wide,
    kafka_znodes,
    report,
)
from benchmarks.kafka_world import world
from benchmarks.report import Finding, Section
from oncelog.testing.kafka_broker import TV2_VERSION

INTRODUCTION = """\
Both connectors run in one Spark session, in turns, against one broker of one process, all on the same two cores. The
medians are of warm runs.

The peer is Spark's own connector, `spark-sql-kafka-0-10_2.13`. Its newest release on Maven Central is the one for Spark
{spark}. So both sides run on PySpark {spark} here, oncelog with the same jar as on 4.3. The peer also needs
`spark-token-provider-kafka-0-10_2.13`, which is used only for delegation tokens; the one of Spark 4.0.0 takes its
place. The versions are Kafka {broker} (the broker and oncelog's client), kafka-clients 3.9.2 (the peer's), and
confluent-kafka {confluent}.

A ratio above 1 means that oncelog is faster, except in rows that measure times or costs. The machine is shared and
noisy: read the ratios, and not to the last digit."""


PARTS: dict[str, tuple[str, str, Callable[..., list[Finding]]]] = {
    "source": ("Kafka to Spark", kafka_source.EXPLANATION, kafka_source.run),
    "sink": ("Spark to Kafka", kafka_sink.FROM_FILES, kafka_sink.from_files),
    "copy": ("Kafka to Kafka", kafka_sink.KAFKA_TO_KAFKA, kafka_sink.kafka_to_kafka),
    "latency": ("A small batch", kafka_latency.EXPLANATION, kafka_latency.run),
    "through": ("From a record to a consumer", kafka_through.EXPLANATION, kafka_through.run),
    "ledger": ("The ledger's store", kafka_znodes.EXPLANATION, kafka_znodes.run),
    "first": ("A session's first batch", kafka_first.EXPLANATION, kafka_first.run),
    "partitions": ("Many partitions", kafka_sink.PARTITIONS, kafka_sink.over_partitions),
    "wide": ("Wide batches", kafka_wide.EXPLANATION, kafka_wide.run),
}
"""By name: heading, explanation, and what measures."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for, in the peer's environment; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under two minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these benchmarks alone")
    parser.add_argument("--spark", choices=kafka_peer.RELEASES, default=kafka_peer.RELEASES[0], help="the PySpark")
    options = parser.parse_args(arguments)
    if not kafka_peer.is_here(options.spark):
        os.chdir(kafka_peer.ROOT)
        interpreter = str(kafka_peer.python(options.spark))
        os.execv(interpreter, [interpreter, "-m", "benchmarks.kafka", *arguments])
    folder = Path(tempfile.mkdtemp(prefix="oncelog-bench-kafka-"))
    try:
        sections = _run(folder, options.only or list(PARTS), quick=options.quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.quick and options.only is None and options.spark == kafka_peer.RELEASES[0]:
        report.write_part("On Kafka", _introduction(options.spark), sections, "make bench WHAT=kafka")
        print(f"wrote {report.PAGE}")
    return 0


def _run(folder: Path, wanted: Sequence[str], *, quick: bool) -> list[Section]:
    sections: list[Section] = []
    with world(folder) as here:
        for name in wanted:
            heading, explanation, run = PARTS[name]
            sections.append(report.section(heading, explanation, partial(run, here, quick=quick)))
    return sections


def _introduction(spark: str) -> str:
    return INTRODUCTION.format(spark=spark, broker=TV2_VERSION, confluent=version("confluent-kafka"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
