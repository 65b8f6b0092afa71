"""Measures wide batches: 2,000 tasks, or a topic with 10,000 partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.kafka_world import World, Write
from benchmarks.report import Finding, median

EXPLANATION = """\
Two queries run wide micro-batches: one writes 4,000 rows in 2,000 tasks to a topic of four partitions, the other 100
rows in two tasks to a topic of 10,000 partitions. *First* is the duration of `addBatch` in the first batch, which opens
the tasks' producers; *later* is the median over the following batches. The peer is Spark's at-least-once sink without
idempotence, in the same run. Its tasks share a producer, whereas each of oncelog's tasks opens a transaction of its
own and sends about eight requests for its two rows. If a small batch has thousands of tasks, `coalesce` its rows. The
topics are fully created before the queries start: a single broker takes one to three minutes to create 10,000
partitions, and until then both sinks wait for the missing ones."""


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure a batch of many tasks and a topic of many partitions."""
    tasks, partitions, batches = (200, 1_000, 3) if quick else (2_000, 10_000, 5)
    return [
        *_measured(world, f"{tasks:,} tasks", batches, rows=2 * tasks, tasks=tasks),
        *_measured(world, f"100 rows into {partitions:,} partitions", batches, rows=100, partitions=partitions),
    ]


def _measured(
    world: World, what: str, batches: int, *, rows: int, tasks: int = 2, partitions: int = 4
) -> list[Finding]:
    files = world.write_files(batches * rows, 100, files=batches)

    topic = world.topic(partitions)  # for both sinks: a broker of this size cannot hold two topics this large

    def add_batch_ms(write: Write) -> list[int]:
        narrow: DataFrame = world.files(files, maxFilesPerTrigger=1)
        return _add_batch_ms(world.run(write(narrow.repartition(tasks), topic))[1])

    peer = add_batch_ms(world.to_spark_without_idempotence)
    ours = add_batch_ms(world.to_oncelog_by_name)
    world.check(topic, 2 * batches * rows)
    compared = {"first": (ours[0], peer[0]), "later": (median(ours[1:]), median(peer[1:]))}
    return [
        Finding(f"{what}, {which}", f"{mine:,.0f} ms", f"{theirs:,.0f} ms Spark", mine / theirs)
        for which, (mine, theirs) in compared.items()
    ]


def _add_batch_ms(query: StreamingQuery) -> list[int]:
    return [progress.durationMs["addBatch"] for progress in query.recentProgress if progress.numInputRows]
