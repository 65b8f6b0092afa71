"""Queries with and without `oncelog.spark.observe`: the time of large batches and of small ones."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame

import oncelog.spark
from benchmarks import kafka_world
from benchmarks.kafka_world import World
from benchmarks.report import Finding, median, per_second, spread
from oncelog.spark import observing

EXPLANATION = """\
A query writes rows of 100 bytes by `foreachBatch`, into a log (SQLite, four partitions) and into Kafka. `observe` is
begun and closed again and again while it runs: some batches with it, as many without. A batch lasts from its call of
the sink to the next call, so all that Spark does in between is part of it. A batch in which `observe` begins or ends
does not count. Differences are the median of pairs, each of a stretch of batches with `observe` and its neighbour
without; in brackets is where the median of more pairs would be, with 95 % certainty. If that is on both sides of what
is promised, the run says neither that it is met nor that it is missed: batches differ by more than that from each
other. *Own work* is measured by itself: all that `observe` does for a batch, in the call of the sink and when Spark
tells of the progress, which it does in a thread of its own. Its ratio is that to the whole batch."""

MOST_SHARE, MOST_MS = 0.01, 2.0
WARMING = 4
"""Stretches that do not count."""

Sink = Callable[[DataFrame, int], None]


class Stretches:
    """Writes batches by a sink, in stretches with `observe` and without it, and times them.

    Args:
        pairs: of stretches.
        batches: of each stretch that count.

    Attributes:
        observed, plain: the seconds of a batch, by pair.
        calls, told: the seconds of each call that `observe` got from the sink, and from Spark.
    """

    def __init__(self, world: World, sink: Sink, rows: int, *, pairs: int, batches: int) -> None:
        self.rows = rows
        self.observed: list[float] = []
        self.plain: list[float] = []
        self.calls: list[float] = []
        self.told: list[float] = []
        self._spark = world.spark
        self._sink = sink
        self._stretches = WARMING + 2 * pairs
        self._batches = batches
        self._ended = 0
        self._began: list[float] = []
        self._is_done = threading.Event()
        with ExitStack() as self._observation:
            self._run(str(world.fresh("checkpoint")))

    def _run(self, checkpoint: str) -> None:
        source = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.rows)
        numbers = source.option("numPartitions", 2).load()
        records = numbers.selectExpr("lpad(string(value), 8, '0') AS key", "rpad(string(value), 92, '{}') AS value")
        query = records.writeStream.foreachBatch(self._write).option("checkpointLocation", checkpoint).start()
        while query.isActive and not self._is_done.wait(0.1):
            pass
        query.stop()
        if not self._is_done.is_set():
            raise RuntimeError(f"the query ended: {query.exception()}")

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        self._began.append(time.perf_counter())
        if len(self._began) == self._batches + 2:  # the first of them began the stretch
            self._end_stretch()
        if not self._is_done.is_set():
            self._sink(rows, batch_id)

    def _end_stretch(self) -> None:
        if self._ended >= WARMING:
            lasted = median([end - start for start, end in pairwise(self._began[1:])])
            (self.observed if _is_observed(self._ended) else self.plain).append(lasted)
        self._began.clear()
        self._ended += 1
        self._observation.close()
        if self._ended == self._stretches:
            self._is_done.set()
        elif _is_observed(self._ended):
            for of, name, seconds in (
                (observing._SinkWatcher, "batch_ended", self.calls),
                (observing._Ears, "onQueryProgress", self.told),
            ):
                self._observation.enter_context(patch.object(of, name, _timed(getattr(of, name), seconds)))
            self._observation.enter_context(observing.observe(self._spark, listen="127.0.0.1:0"))
        self._began.append(time.perf_counter())


def _is_observed(stretch: int) -> bool:
    """Pairs are without and with it, and then the other way around."""
    return stretch % 4 in {1, 2}


def _timed(call: Callable[..., None], seconds: list[float]) -> Callable[..., None]:
    """The same call, which notes how long it takes."""

    def timed(*arguments: Any) -> None:
        began = time.perf_counter()
        call(*arguments)
        seconds.append(time.perf_counter() - began)

    return timed


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure each sink, with large and with small batches."""
    findings = []
    with kafka_world.world(folder, has_peer=False, jars=[Path(oncelog.spark.jars())]) as world:
        for name, new_sink in (("log", _log_sink), ("Kafka", lambda world: world.sink(world.topic()))):
            pairs, rows = (6, 100_000) if quick else (40, 400_000)
            large = Stretches(world, new_sink(world), rows, pairs=pairs, batches=1)
            small = Stretches(world, new_sink(world), 1_000, pairs=pairs, batches=4)
            findings += [*_large(name, large), *_small(name, small)]
    return findings


def _log_sink(world: World) -> Sink:
    place = world.fresh("log")
    with oncelog.open(place) as log:
        log.create_topic("t", partitions=4)
    return oncelog.spark.sink(path=str(place), topic="t", transactionalIdPrefix="bench")


def _large(name: str, found: Stretches) -> list[Finding]:
    rows = f"{name}, batches of {found.rows:,} rows"
    ratios = [ours / peer - 1 for ours, peer in zip(found.observed, found.plain, strict=True)]
    low, high = bounds(ratios)
    what = f"{rows}: {median(ratios):+.1%} time ({low:+.1%} to {high:+.1%})"
    texts = per_second(found.rows, median(found.observed)), f"{per_second(found.rows, median(found.plain))} without"
    own = _own_seconds(found)
    share = own / median(found.plain)
    promised = f"≤ {MOST_SHARE:.0%}"
    return [
        Finding(what, *texts, 1 + median(ratios), promised, _is_within(low, high, MOST_SHARE)),
        Finding(
            f"{rows}: own work", f"{own * 1000:.2f} ms, {share:.2%}", texts[1], share, promised, share <= MOST_SHARE
        ),
    ]


def _small(name: str, found: Stretches) -> list[Finding]:
    rows = f"{name}, batches of {found.rows:,} rows"
    more_ms = [(ours - peer) * 1000 for ours, peer in zip(found.observed, found.plain, strict=True)]
    low, high = bounds(more_ms)
    what = f"{rows}: {median(more_ms):+.1f} ms ({low:+.1f} to {high:+.1f})"
    texts = f"{_spread_ms(found.observed)} ms", f"{_spread_ms(found.plain)} ms without"
    own = _own_seconds(found)
    promised, ratio = f"≤ {MOST_MS:g} ms", median(found.observed) / median(found.plain)
    is_met = own * 1000 <= MOST_MS
    return [
        Finding(what, *texts, ratio, promised, _is_within(low, high, MOST_MS)),
        Finding(f"{rows}: own work", f"{own * 1000:.2f} ms", texts[1], own / median(found.plain), promised, is_met),
    ]


def _own_seconds(found: Stretches) -> float:
    return median(found.calls) + median(found.told)


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Where the median is, with 95 % certainty: between so many of the values, whatever their distribution."""
    ranked, reach = sorted(values), 0.98 * math.sqrt(len(values))
    middle = (len(values) - 1) / 2
    return ranked[max(math.floor(middle - reach), 0)], ranked[min(math.ceil(middle + reach), len(values) - 1)]


def _is_within(low: float, high: float, most: float) -> bool | None:
    """Whether what is promised is met; None if nobody can tell."""
    if low <= most < high:
        return None
    return high <= most


def _spread_ms(seconds: Sequence[float]) -> str:
    return spread([one * 1000 for one in seconds])
