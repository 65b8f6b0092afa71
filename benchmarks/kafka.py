"""Runs the benchmarks on Kafka and writes their part of docs/benchmarks.md (the full run only).

python -m benchmarks.kafka [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks import kafka_peer, report
from benchmarks.report import Finding, Section

INTRODUCTION = """\
Both connectors run in one Spark session, in turns, against one broker of one process, all on the same two cores; the
medians are of warm runs. The peer is Spark's own connector, `spark-sql-kafka-0-10_2.13`. Its newest release on Maven
Central is that for Spark {spark}; so both sides run on PySpark {spark} here, oncelog with the same jar as on 4.3. For
the peer's `spark-token-provider-kafka-0-10_2.13`, which only delegation tokens use, that of Spark 4.0.0 stands in.
Kafka {broker} (broker and oncelog's client), kafka-clients 3.9.2 (the peer's), confluent-kafka {confluent}. Above 1
oncelog is faster, but for times and costs. The machine is shared and noisy: read the ratios, and not to the last
digit."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for, in the peer's environment; returns the exit code."""
    if not kafka_peer.is_here():
        os.chdir(kafka_peer.ROOT)
        interpreter = str(kafka_peer.python())
        os.execv(interpreter, [interpreter, "-m", "benchmarks.kafka", *arguments])
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under two minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=list(_parts()), help="these benchmarks alone")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="oncelog-bench-kafka-"))
    try:
        sections = _run(folder, options.only or list(_parts()), quick=options.quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.quick and options.only is None:
        report.write_part("On Kafka", _introduction(), sections, "make bench-kafka")
        print(f"wrote {report.PAGE}")
    return 0


def _parts() -> dict[str, tuple[str, str, Callable[..., list[Finding]]]]:
    """By name: heading, explanation, and what measures. Imported late: they need the peer's environment."""
    from benchmarks import kafka_latency, kafka_sink, kafka_source

    return {
        "source": ("Kafka to Spark", kafka_source.EXPLANATION, kafka_source.run),
        "sink": ("Spark to Kafka", kafka_sink.FROM_FILES, kafka_sink.from_files),
        "copy": ("Kafka to Kafka", kafka_sink.KAFKA_TO_KAFKA, kafka_sink.kafka_to_kafka),
        "latency": ("A small batch", kafka_latency.EXPLANATION, kafka_latency.run),
        "partitions": ("Many partitions", kafka_sink.PARTITIONS, kafka_sink.over_partitions),
    }


def _run(folder: Path, wanted: Sequence[str], *, quick: bool) -> list[Section]:
    from benchmarks.kafka_world import world

    sections: list[Section] = []
    with world(folder) as here:
        for name in wanted:
            heading, explanation, run = _parts()[name]
            print(f"{heading} ...", flush=True)
            started = time.monotonic()
            findings = run(here, quick=quick)
            print(f"{report.table(findings)}({time.monotonic() - started:.0f} s)\n", flush=True)
            sections.append((heading, explanation, findings))
    return sections


def _introduction() -> str:
    from oncelog.testing.kafka_broker import TV2_VERSION

    return INTRODUCTION.format(spark=kafka_peer.SPARK, broker=TV2_VERSION, confluent=version("confluent-kafka"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
