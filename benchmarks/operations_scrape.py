"""One scrape of the exporter: the first of its process, and later ones, each behind a change."""

from __future__ import annotations

import time

from benchmarks.operations_places import Place
from benchmarks.operations_served import served, taken_ms
from benchmarks.report import Finding, median, spread
from oncelog.metrics.exposition import FRESH_SECONDS

EXPLANATION = """\
A log and a cluster with 1,000 partitions in ten topics, 10,000 transactional ids, ten groups with offsets in 100
partitions each, and 20 open transactions. The exporter is a process of its own, and is read over HTTP with Prometheus'
headers, until the last byte is there. *The first* is that of a process that has just started. *The following* come each
behind a transaction of a new id to ten partitions (on Kafka to one), and more than a second behind the one before, so
that each reads the store. The peer is what no exporter can do without, asked by one client again and again: all
partitions of the log; on Kafka the list of ids, what the open ones hold, the ends of all partitions and the offsets of
all groups. On Kafka the exporter is told the names of all topics and groups. What the
exporter computes is its processor time, which a busy machine changes less; its ratio is that to the scrape."""

MOST_MS = 200.0


def run(places: list[Place], *, quick: bool) -> list[Finding]:
    """Measure each place, in turns with its peer."""
    return [found for place in places for found in _of(place, starts=2 if quick else 5, times=3 if quick else 12)]


def _of(place: Place, *, starts: int, times: int) -> list[Finding]:
    first, following, peer = [], [], []
    for _ in range(starts):
        with served(*place.scrape) as exporter:
            first.append(taken_ms(exporter.scrape))
    with served(*place.scrape) as exporter:
        exporter.scrape()
        computed = exporter.cpu_seconds()
        for _ in range(times):
            time.sleep(FRESH_SECONDS)
            place.change()
            following.append(taken_ms(exporter.scrape))
            peer.append(taken_ms(place.read))
        cpu_ms = (exporter.cpu_seconds() - computed) / times * 1000
    return [
        within(f"{place.name}: the first scrape", first, peer, MOST_MS),
        within(f"{place.name}: the following", following, peer, MOST_MS),
        Finding(f"{place.name}: of these, the exporter computes", f"{cpu_ms:.0f} ms", "", cpu_ms / median(following)),
    ]


def within(what: str, ours: list[float], peer: list[float], most_ms: float) -> Finding:
    """A finding whose milliseconds are promised."""
    texts = f"{spread(ours)} ms", f"{spread(peer)} ms bare reads"
    taken = median(ours)
    return Finding(what, *texts, taken / median(peer), f"≤ {most_ms:.0f} ms", taken <= most_ms)
