"""What being exact costs a small batch: its fixed cost, what each participant adds, and where the time goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.kafka_world import World, Write
from benchmarks.report import Finding, at_most, median
from benchmarks.spark_small import ROWS, WARMING, add_batch_ms

EXPLANATION = """\
A query runs many micro-batches of 1,000 rows, repartitioned to the given number of tasks. Each task is a participant.
The figures are medians of the time that Spark spends in a batch's `addBatch`, without the first three batches. The peer
is Spark's at-least-once sink, in the same run, also with batches of 256 kB. The exactly-once sink's time has four
parts: *write* is Spark's job, *prepare* looks for transactions of retries, *decide* checks every participant and writes
to the ledger (SQLite), and *commit* ends every transaction. *By name* is `format("oncelog-kafka")`, which spares what
Spark's foreachBatch costs by itself. *Ledger in a topic* is the same by default, compared with SQLite."""

PARTICIPANTS = (2, 10, 50)
MOST_MS = 150.0
MOST_BY_NAME = {2: 1.7, 50: 1.8}
"""By the number of participants, against Spark's sink."""
MOST_IN_A_TOPIC = 1.15


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure batches of 2, 10 and 50 participants."""
    batches = 10 if quick else 30
    findings: list[Finding] = []
    extra_ms: dict[int, float] = {}
    files = world.write_files(batches * ROWS, 100, files=batches)
    for participants in PARTICIPANTS:
        with _reported(world, files, participants) as (ours, parts):
            peer = _time(world, files, participants, world.to_spark_at_256_kb)
            by_name = _time(world, files, participants, world.to_oncelog_by_name)
        extra_ms[participants] = ours - peer
        what = f"batch of {participants} participants"
        findings.append(Finding(what, f"{ours:.0f} ms ({parts})", f"{peer:.0f} ms Spark", ours / peer))
        findings.append(_by_name(f"{what}, by name", by_name, peer, MOST_BY_NAME.get(participants)))
        if participants == PARTICIPANTS[0]:
            in_topic = _time(world, files, participants, world.to_oncelog_by_default)
            texts = f"{in_topic:.0f} ms", f"{by_name:.0f} ms SQLite"
            findings.append(at_most(f"{what}, ledger in a topic", *texts, in_topic / by_name, MOST_IN_A_TOPIC))
    fixed = extra_ms[PARTICIPANTS[0]]
    slope = (extra_ms[PARTICIPANTS[-1]] - fixed) / (PARTICIPANTS[-1] - PARTICIPANTS[0])
    return [
        *findings,
        at_most("fixed cost of an exactly-once batch, 2 participants", f"{fixed:.0f} ms", "-", fixed, MOST_MS),
        Finding("cost of each further participant", f"{slope:.1f} ms", "-", slope),
    ]


@contextmanager
def _reported(world: World, files: Path, participants: int) -> Iterator[tuple[float, str]]:
    """The exactly-once sink's time of a batch in ms, and the parts of it."""
    topic = world.topic()
    sink = world.sink(topic)
    reports = []

    def write(rows: DataFrame, batch_id: int) -> None:
        sink(rows, batch_id)
        reports.append(sink.last_report)

    rows = _batches(world, files, participants)
    _, query = world.run(rows.writeStream.foreachBatch(write))
    kept = [report for report in itertools.islice(reports, WARMING, None) if report is not None]
    parts = ", ".join(
        f"{name} {median([getattr(report, f'{name}_ms') for report in kept]):.0f}"
        for name in ("write", "prepare", "decide", "commit")
    )
    yield add_batch_ms(query), parts


def _by_name(what: str, by_name: float, peer: float, most: float | None) -> Finding:
    texts = f"{by_name:.0f} ms", f"{peer:.0f} ms Spark"
    ratio = by_name / peer
    return Finding(what, *texts, ratio) if most is None else at_most(what, *texts, ratio, most)


def _time(world: World, files: Path, participants: int, write: Write) -> float:
    topic = world.topic()
    return add_batch_ms(world.run(write(_batches(world, files, participants), topic))[1])


def _batches(world: World, files: Path, participants: int) -> DataFrame:
    return world.files(files, maxFilesPerTrigger=1).repartition(participants)
