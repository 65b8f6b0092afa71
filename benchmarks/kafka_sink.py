"""Streams into Kafka: from parquet files and from Kafka, by the exactly-once sink and by Spark's at-least-once one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.kafka_world import ONCELOG, SPARK, World, Write, interleaved
from benchmarks.report import Finding, at_least, median, per_second

FROM_FILES = """\
A stream reads parquet files of keys and 100-byte values (AvailableNow, one query for each run) and is written to a
topic. The exactly-once sink runs at its defaults (it sends batches of 256 kB). Spark's sink runs at its defaults (16
kB), and once more with batches of 256 kB. The last peer is a loop in plain Python on one core, without Spark. It reads
the same files with pyarrow, and sends each row with confluent-kafka's transactional producer at its defaults, in
transactions of 100,000 rows."""

PARTITIONS = """\
The same stream, with fewer rows, is written to topics of the given number of partitions. Both sinks run at their
defaults, except that Spark's producer runs without idempotence. With idempotence the peer's client (kafka-clients
3.9.2) could not write to 100 new partitions of this broker: its batches expired after two minutes of
OutOfOrderSequence."""

KAFKA_TO_KAFKA = """\
Committed records of 100 bytes in four partitions are copied to another topic, all in one batch. Each connector reads
and writes, at its defaults."""

FILES = 8
BATCH_ROWS = 2_000_000

_CONFLUENT_ROWS = 100_000


def from_files(world: World, *, quick: bool) -> list[Finding]:
    """Measure batches of 2 M rows."""
    rows = 400_000 if quick else 2 * BATCH_ROWS
    files = world.write_files(rows, 100, files=FILES)
    per_batch = {"maxFilesPerTrigger": FILES if quick else FILES // 2}
    contenders: dict[str, Callable[[], float]] = {
        "oncelog": partial(_write, world, files, rows, world.to_oncelog, **per_batch),
        "by name": partial(_write, world, files, rows, world.to_oncelog_by_name, **per_batch),
        "defaults": partial(_write, world, files, rows, world.to_spark, **per_batch),
        "256 kB": partial(_write, world, files, rows, world.to_spark_at_256_kb, **per_batch),
    }
    times = interleaved(contenders, 2 if quick else 5)
    some = rows // FILES  # the loop is slow: a file of the eight tells as much
    plain = interleaved({"loop": partial(_write_plainly, world, files / "0000.parquet", some)}, 1 if quick else 3)
    ours, by_name, defaults, large = (median(times[name]) for name in contenders)
    loop = median(plain["loop"]) / some * rows
    what = f"exactly-once sink, parquet to Kafka, {rows:,} rows"
    rate = per_second(rows, ours)
    return [
        at_least(f"{what}, Spark at its defaults", rate, f"{per_second(rows, defaults)} Spark", defaults / ours, 1.0),
        at_least(f"{what}, Spark at 256 kB", rate, f"{per_second(rows, large)} Spark", large / ours, 0.9),
        at_least(f"{what}, by name", per_second(rows, by_name), f"{rate} foreachBatch", ours / by_name, 1.0),
        Finding(f"{what}, a Python loop", rate, f"{per_second(rows, loop)} confluent-kafka", loop / ours),
    ]


def over_partitions(world: World, *, quick: bool) -> list[Finding]:
    """Measure topics of 1, 10 and 100 partitions."""
    rows = 200_000 if quick else 1_000_000
    files = world.write_files(rows, 100, files=FILES)
    findings = []
    for partitions in (1, 10, 100):
        contenders = {
            "oncelog": partial(_write, world, files, rows, world.to_oncelog, partitions),
            "spark": partial(_write, world, files, rows, world.to_spark_without_idempotence, partitions),
        }
        times = interleaved(contenders, 1 if quick else 3)
        ours, peer = (median(times[name]) for name in contenders)
        what = f"exactly-once sink, {rows:,} rows into a topic of {partitions} partitions"
        findings.append(Finding(what, per_second(rows, ours), f"{per_second(rows, peer)} Spark", peer / ours))
    return findings


def kafka_to_kafka(world: World, *, quick: bool) -> list[Finding]:
    """Measure a copy of a topic, with one connector on both ends."""
    rows = 400_000 if quick else 2_000_000
    source = world.topic()
    world.load(source, rows, 100)
    contenders = {
        "oncelog": partial(_copy, world, source, rows, ONCELOG, world.to_oncelog),
        "spark": partial(_copy, world, source, rows, SPARK, world.to_spark),
    }
    times = interleaved(contenders, 1 if quick else 5)
    ours, peer = (median(times[name]) for name in contenders)
    what = f"Kafka to Kafka, {rows:,} rows, both ends"
    return [at_least(what, per_second(rows, ours), f"{per_second(rows, peer)} Spark", peer / ours, 2.0)]


def _write(world: World, files: Path, rows: int, write: Write, partitions: int = 4, **reading: int) -> float:
    topic = world.topic(partitions)
    seconds, _ = world.run(write(world.files(files, **reading), topic))
    world.check(topic, rows)
    return seconds


def _copy(world: World, source: str, rows: int, connector: str, write: Write) -> float:
    topic = world.topic()
    seconds, _ = world.run(write(world.source(connector, source).select("key", "value"), topic))
    world.check(topic, rows)
    return seconds


def _write_plainly(world: World, file: Path, rows: int) -> float:
    """What a Python program without Spark does."""
    topic = world.topic()
    started = time.perf_counter()
    producer = Producer({"bootstrap.servers": world.broker.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for batch in pq.ParquetFile(file).iter_batches(_CONFLUENT_ROWS):
        producer.begin_transaction()
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            while True:
                try:
                    producer.produce(topic, value=value, key=key)
                    break
                except BufferError:  # the producer's queue is full
                    producer.poll(0.1)
            producer.poll(0)
        producer.commit_transaction()
    seconds = time.perf_counter() - started
    world.check(topic, rows)
    return seconds
