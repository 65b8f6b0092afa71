"""Spark reading Kafka to a sink that does nothing, by the columnar source and by Spark's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.kafka_world import ONCELOG, SPARK, World, interleaved
from benchmarks.report import Finding, at_least, median, per_second

EXPLANATION = """\
All columns of four partitions are read to the `noop` sink, `read_committed` on both sides: as a stream
(`Trigger.AvailableNow`, one batch) and as a batch (`spark.read`)."""


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure 100-byte and 1 kB values."""
    sizes = {100: 1_000_000} if quick else {100: 4_000_000, 1000: 500_000}
    return [found for value_bytes, rows in sizes.items() for found in _measure(world, rows, value_bytes, quick=quick)]


def _measure(world: World, rows: int, value_bytes: int, *, quick: bool) -> list[Finding]:
    topic = world.topic()
    world.load(topic, rows, value_bytes)
    contenders: dict[str, Callable[[], float]] = {}
    for connector in (ONCELOG, SPARK):
        contenders[f"stream {connector}"] = partial(_stream, world, connector, topic)
        contenders[f"batch {connector}"] = partial(_batch, world, connector, topic)
    times = interleaved(contenders, 2 if quick else 5)
    findings = []
    for kind in ("stream", "batch"):
        ours, peer = (median(times[f"{kind} {connector}"]) for connector in (ONCELOG, SPARK))
        what = f"source to noop, {kind}, {value_bytes}-byte values, {rows:,} rows"
        least = 2.0 if value_bytes == 100 and kind == "stream" else None
        findings.append(at_least(what, per_second(rows, ours), f"{per_second(rows, peer)} Spark", peer / ours, least))
    return findings


def _stream(world: World, connector: str, topic: str) -> float:
    return world.run(world.source(connector, topic).writeStream.format("noop"))[0]


def _batch(world: World, connector: str, topic: str) -> float:
    started = time.perf_counter()
    world.read(connector, topic).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started
