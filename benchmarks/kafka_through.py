"""From a record in Kafka through a Spark query to a consumer of what the query writes: how long each record takes."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Producer
from pyspark.sql import DataFrame

from benchmarks.kafka_world import ONCELOG, SPARK, World
from benchmarks.report import Finding
from benchmarks.transactions import percentile

EXPLANATION = """\
A producer sends 20 records a second into a topic of one partition. A query copies them to another topic, where a
consumer with `isolation.level=read_committed` waits. Both clients are confluent-kafka's at their defaults, except that
the producer does not linger. A record's time begins before it is sent, and ends when the consumer has it. *oncelog*
reads and writes by `format("oncelog-kafka")`, with its ledger in a topic; the peer is Spark's source and its
at-least-once sink. Triggers are those of `processingTime`. A query's first ten batches are not counted."""

TRIGGERS = ("0 seconds", "100 milliseconds", "1 second")
RECORDS_APART_S = 0.05
WARMING_BATCHES = 10
PATIENCE_S = 60.0

_SENT_S = struct.Struct("<d")


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure each trigger, one query after the other."""
    records = 100 if quick else 600
    findings = []
    for trigger in TRIGGERS:
        ours = _latencies_ms(world, ONCELOG, trigger, records)
        peer = _latencies_ms(world, SPARK, trigger, records)
        for percent in (50, 99):
            mine, theirs = percentile(ours, percent), percentile(peer, percent)
            what = f"record to consumer, trigger of {trigger}, p{percent}"
            findings.append(Finding(what, f"{mine:.0f} ms", f"{theirs:.0f} ms Spark", mine / theirs))
    return findings


def _latencies_ms(world: World, connector: str, trigger: str, records: int) -> list[float]:
    """Of records through a query of its own."""
    source, target = world.topic(partitions=1), world.topic(partitions=1)
    rows: DataFrame = world.source(connector, source).select("key", "value")
    write = world.to_oncelog_by_default if connector == ONCELOG else world.to_spark
    writer = write(rows, target).option("checkpointLocation", str(world.fresh("checkpoint")))
    query = writer.trigger(processingTime=trigger).start()
    try:
        sent = _sent_and_taken(world.broker.address, source, target)
        while len(query.recentProgress) <= WARMING_BATCHES:
            next(sent)
        return [next(sent) for _ in range(records)]
    finally:
        query.stop()


def _sent_and_taken(address: str, source: str, target: str) -> Iterator[float]:
    """Send records into one topic, and give the time in ms of each that comes out of the other."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": target,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([target])
    try:
        due_s = taken_s = time.monotonic()
        while (now_s := time.monotonic()) < taken_s + PATIENCE_S:
            if now_s >= due_s:
                producer.produce(source, _SENT_S.pack(now_s))
                due_s += RECORDS_APART_S
            message = consumer.poll(max(due_s - now_s, 0))
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            taken_s = time.monotonic()
            (sent_s,) = _SENT_S.unpack(message.value() or b"")
            yield (taken_s - sent_s) * 1000
        raise RuntimeError(f"no record came out of the query into {target} for {PATIENCE_S:g} s")
    finally:
        consumer.close()
        producer.flush()
