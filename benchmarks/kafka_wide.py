"""Wide batches: two thousand tasks, and a topic of ten thousand partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.kafka_world import World, Write
from benchmarks.report import Finding, median

EXPLANATION = """\
A query runs wide micro-batches: 2,000 tasks of two rows each into a topic of four partitions, and 100 rows in two
tasks into a topic of 10,000 partitions. *First* is the time that Spark spends in the first batch's `addBatch`, in
which each task gets its producer; *later* is the median of the batches after it. The peer is Spark's at-least-once
sink without idempotence, in the same run: its tasks share a producer, while each of oncelog's tasks has a transaction
of its own, with some eight requests for its two rows. So `coalesce` the rows of a small batch that comes in thousands
of tasks. The topics are complete before the queries start. A single broker takes one to three minutes to create
10,000 partitions, and until then either sink waits for the partitions that are missing."""


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure many tasks and many partitions."""
    tasks, partitions, batches = (200, 1_000, 3) if quick else (2_000, 10_000, 5)
    return [
        *_measured(world, f"{tasks:,} tasks", batches, rows=2 * tasks, tasks=tasks),
        *_measured(world, f"100 rows into {partitions:,} partitions", batches, rows=100, partitions=partitions),
    ]


def _measured(
    world: World, what: str, batches: int, *, rows: int, tasks: int = 2, partitions: int = 4
) -> list[Finding]:
    files = world.write_files(batches * rows, 100, files=batches)

    topic = world.topic(partitions)  # both write into it: a broker of this size holds one such topic, not two

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
