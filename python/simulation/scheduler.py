"""Virtual time, and strands that run in it, one at a time.

A strand runs until it waits. Then the strand that is due next continues, and the clock moves to the time that it waited
for. Nothing else moves the clock, and nothing runs in parallel, so a run depends only on what the strands do.

Strands are greenlets: product code runs in them unchanged, and a switch takes a fraction of a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from greenlet import greenlet

STEPS_MAX = 200_000
"""A run with more steps than this is taken for endless."""


class EndlessRunError(Exception):
    """The run does not end, because a strand waits for something that never happens."""


class Scheduler:
    """Runs strands until all have ended.

    Attributes:
        now_ms: the virtual time.
        waits: how often a strand waited.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.waits = 0
        self._queue: list[tuple[int, int, greenlet]] = []
        self._order = 0
        self._main = greenlet.getcurrent()

    def start(self, body: Callable[[], None], delay_ms: int = 0) -> None:
        """Run `body` as a new strand, `delay_ms` from now. An exception from it ends the whole run."""
        self._put(greenlet(body, self._main), self.now_ms + delay_ms)

    def wait(self, duration_ms: int) -> None:
        """Called in a strand: let the others run for `duration_ms`."""
        self.waits += 1
        if self.waits > STEPS_MAX:
            raise EndlessRunError
        due_ms = self.now_ms + duration_ms
        if not self._queue or due_ms < self._queue[0][0]:
            self.now_ms = due_ms  # no other strand is due before
            return
        self._put(greenlet.getcurrent(), due_ms)
        self._next().switch()

    def run(self) -> None:
        """Run until every strand has ended, or one has failed.

        Raises:
            Whatever a strand raised; the others are left where they are.
        """
        self._main = greenlet.getcurrent()
        while self._queue:
            self._next().switch()

    def _put(self, strand: greenlet, due_ms: int) -> None:
        self._order += 1
        heappush(self._queue, (due_ms, self._order, strand))

    def _next(self) -> greenlet:
        self.now_ms, _, strand = heappop(self._queue)
        return strand


class StrandLock:
    """A reentrant lock between strands. Waiting strands check it every millisecond of virtual time."""

    def __init__(self, wait: Callable[[int], None]) -> None:
        self._wait = wait
        self._holder: greenlet | None = None
        self._depth = 0

    def __enter__(self) -> None:
        strand = greenlet.getcurrent()
        while self._holder not in (None, strand):
            self._wait(1)
        self._holder = strand
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
