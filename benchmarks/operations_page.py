"""The page: its first content, and how often it reads the store while some look at it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from threading import Thread

from benchmarks.operations_places import Place
from benchmarks.operations_scrape import within
from benchmarks.operations_served import Served, Stream, served, taken_ms
from benchmarks.report import Finding, median

EXPLANATION = """\
The same log and cluster. *Content* is what a browser gets until it has tables to draw: the document, and the first
event with tables. *At its start* the server has just begun to listen, and has read nothing yet; later it sends what it
has. The peer is the same as above. *Readings* are those that a viewer was sent in a second while so many have the page
open; beside them is the server's processor time, as a share of one core, and its ratio to that with one viewer."""

MOST_MS = 500.0
MOST_READS = 1.0
VIEWERS = (1, 10, 50)


def run(places: list[Place], *, quick: bool) -> list[Finding]:
    """Measure each place."""
    return [found for place in places for found in _of(place, quick=quick)]


def _of(place: Place, *, quick: bool) -> Iterator[Finding]:
    starts, times, seconds = (2, 3, 4.0) if quick else (5, 12, 10.0)
    first, following, peer = [], [], []
    for _ in range(starts):
        with served(*place.page) as server:
            first.append(taken_ms(server.visit))
    with served(*place.page) as server:
        server.visit()
        for _ in range(times):
            place.change()
            following.append(taken_ms(server.visit))
            peer.append(taken_ms(place.read))
        yield within(f"{place.name}: content at its start", first, peer, MOST_MS)
        yield within(f"{place.name}: content later", following, peer, MOST_MS)
        shares: list[float] = []
        for viewers in VIEWERS:
            readings, share = _looked_at(server, viewers, seconds)
            shares.append(share)
            what = f"{place.name}: readings a second, {viewers} viewers"
            texts = f"{readings:.2f}", f"{share:.0%} of a core"
            yield Finding(what, *texts, share / shares[0], f"≤ {MOST_READS:g}", readings <= MOST_READS)


def _looked_at(server: Served, viewers: int, seconds: float) -> tuple[float, float]:
    """How many readings a second viewers got, and the share of a core that the server needed."""
    with ExitStack() as stack:
        streams = [stack.enter_context(server.stream()) for _ in range(viewers)]
        found: list[set[int]] = [set() for _ in streams]
        began, computed = time.monotonic(), server.cpu_seconds()
        threads = [
            Thread(target=_follow, args=(stream, began + seconds, seen))
            for stream, seen in zip(streams, found, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        share = (server.cpu_seconds() - computed) / (time.monotonic() - began)
    return median([_a_second(sorted(one)) for one in found]), share


def _a_second(read_ms: Sequence[int]) -> float:
    """How often a reading was made. The first that a viewer sees is from before, when maybe nobody looked."""
    return (len(read_ms) - 2) * 1000 / (read_ms[-1] - read_ms[1])


def _follow(stream: Stream, end: float, seen: set[int]) -> None:
    """Note when each reading was made, until a moment."""
    while time.monotonic() < end:
        seen.add(next(stream)["read_ms"])
