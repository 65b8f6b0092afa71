"""Micro-batches as a history, from the checkpoint of their query and what the source holds.

Spark logs the source's end offsets of a batch before it runs, and never others for the same batch; what it did with the
batch it logs afterwards. Hence the records of a batch are those of the source between two ends, whoever ran it and how
often; it may be committed once it is logged, and it is committed once its end is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from integration_tests.soak.records import PARTITIONS, SOURCE
from oncelog.testing.history import (
    End,
    Ending,
    Event,
    Keep,
    Kind,
    Poll,
    Polled,
    Recorder,
    Run,
    Stage,
    Write,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of a query over the source."""

    number: int
    starts: dict[int, int]
    ends: dict[int, int]
    began_ns: int
    ended_ns: int | None


def ends_of(text: str) -> dict[int, int]:
    """The end offsets of the source in one file of an offset log; of oncelog or of Kafka."""
    logged = json.loads(text.splitlines()[-1])
    found = logged["topics"][SOURCE]["offsets"] if "topics" in logged else logged.get(SOURCE, {})
    return {int(partition): offset for partition, offset in found.items()}


def batches(checkpoint: Path) -> Iterator[Batch]:
    """The batches of a query in their order."""
    since_ns = time.time_ns() - time.monotonic_ns()
    starts: dict[int, int] = {}
    for number in _numbers(checkpoint / "offsets"):
        logged, committed = checkpoint / "offsets" / str(number), checkpoint / "commits" / str(number)
        ends = ends_of(logged.read_text())
        ended_ns = committed.stat().st_mtime_ns - since_ns if committed.exists() else None
        yield Batch(number, starts, ends, logged.stat().st_mtime_ns - since_ns, ended_ns)
        starts = ends


def is_done(checkpoint: Path, ends: dict[int, int]) -> bool:
    """Whether a query has copied the source up to some offsets."""
    logged, committed = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    if not logged or not committed or committed[-1] != logged[-1]:
        return False
    found = ends_of((checkpoint / "offsets" / str(logged[-1])).read_text())
    return all(found.get(partition, 0) >= end for partition, end in ends.items())


def progress(checkpoint: Path) -> tuple[int, int]:
    """How many batches are logged and how many are committed."""
    return len(_numbers(checkpoint / "offsets")), len(_numbers(checkpoint / "commits"))


def write_history(query: str, checkpoint: Path, source: SourceLog, keep: Keep) -> int:
    """Write down what the batches of a query wrote, and when at the latest they began and ended; returns how many."""
    clock = _Clock()
    recorder = Recorder(f"{query}.checkpoint", keep, now_ns=clock)
    count = 0
    for batch in batches(checkpoint):
        count += 1
        clock.now_ns = batch.began_ns
        name = f"{query}/batch-{batch.number}"
        for partition, end in sorted(batch.ends.items()):
            if runs := source.between(partition, batch.starts.get(partition, 0), end):
                recorder.invoke(Write(query, runs, partition, name, producer=query, is_micro_batch=True))
        if batch.ends:
            recorder.invoke(Stage(query, [(SOURCE, at, end) for at, end in sorted(batch.ends.items())], name))
        made = recorder.invoke(End(name, Ending.COMMIT))
        if batch.ended_ns is not None:
            clock.now_ns = batch.ended_ns
            recorder.ok(made)
    return count


class _Clock:
    """The times of what was written by others."""

    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class SourceLog:
    """What a final reader found in the source: offsets and numbers, by partition.

    Args:
        events: of a history.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        finals: set[tuple[str, int]] = set()
        found: dict[int, list[tuple[int, int, int]]] = {partition: [] for partition in range(PARTITIONS)}
        for event in events:
            if isinstance(event.call, Poll) and event.call.is_final:
                finals.add((event.process, event.number))
            elif event.kind is Kind.OK and isinstance(event.answer, Polled) and (event.process, event.number) in finals:
                for piece in event.answer.pieces:
                    if piece.topic == SOURCE:
                        found[piece.partition] += [(run[0], run[1], run[2]) for run in piece.runs]
        self._runs = {partition: np.array(sorted(runs), np.int64).reshape(-1, 3) for partition, runs in found.items()}

    def between(self, partition: int, start: int, end: int) -> list[Run]:
        """The records with offsets in ``[start, end)``."""
        runs = self._runs[partition]
        first = np.maximum(runs[:, 0], start)
        count = np.minimum(runs[:, 0] + runs[:, 2], end) - first
        number = runs[:, 1] + first - runs[:, 0]
        return [(int(at), int(many)) for at, many in zip(number, count, strict=True) if many > 0]

    def ends(self) -> dict[int, int]:
        """Behind the last record of each partition."""
        return {partition: int(runs[-1, 0] + runs[-1, 2]) if len(runs) else 0 for partition, runs in self._runs.items()}

    @property
    def count(self) -> int:
        return sum(int(runs[:, 2].sum()) for runs in self._runs.values())


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal())
