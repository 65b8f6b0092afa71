"""Records leave a producer by themselves, a moment after they were sent: the flushes beside the user's calls.

Owns the lock by which the calls of a producer and such a flush take turns, and the error of such a flush until a call
tells the user of it. clients/delivery.py is the only caller.

No record is left behind. Assumptions: the delivery calls `begin` while it holds the lock, before it takes a record; the
work in the background ends only when it finds, holding the lock, that nothing is unsent; signals interrupt the main
thread only. Hence the work goes on while any record is unsent, whatever interrupted the call that took it, and nothing
interrupts a flush in the background. It continues what an interrupted flush left, as the next `flush` would.

Each send takes the lock, which costs it little: a record that came into a buffer while a flush turns that into columns
would be lost, and its receipt would say that it is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from oncelog.errors import OutcomeUnknownError, RetriableError
from oncelog.ports import Background, Clock

PAUSE_SHARE = 9
PAUSE_MAX_MS = 1_000
"""A flush in the background is followed by a pause nine times as long, up to a second. So a program that sends all the
time waits for a tenth of it at most, and its batches grow until the buffer is full before the pause is over."""


class Linger:
    """The flushes in the background of one producer.

    Args:
        linger_ms: between a record and the flush that takes it, unless a flush before it took long.
        delivery_timeout_ms: after so long without an answer the user is told; the flushes go on.

    Attributes:
        lock: held by a call while it changes what is unsent.
        failure: what the user has not been told of.
        is_begun: whether a flush will come, so that `begin` has nothing to do.
    """

    def __init__(self, background: Background, clock: Clock, *, linger_ms: int, delivery_timeout_ms: int) -> None:
        self.lock = background.lock()
        self.failure: Exception | None = None
        self._background = background
        self._clock = clock
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self.is_begun = False
        self._unanswered_since_ms: int | None = None

    def begin(self, flush: Callable[[], bool]) -> None:
        """Call `flush` soon, and again until it returns that nothing was unsent. Begun twice, it does no harm."""
        if self.is_begun:
            return
        with suppress(RuntimeError):  # no thread to be had: the next record, or the end of the program, tries again
            self._background.later(self._linger_ms, lambda: self._flush(flush), name="oncelog-linger")
            self.is_begun = True

    def _flush(self, flush: Callable[[], bool]) -> int | None:
        with self.lock:
            began_ms = self._clock.monotonic_ms()
            try:
                self.is_begun = flush()
                self._unanswered_since_ms = None
            except (RetriableError, OutcomeUnknownError) as error:
                self._tell_if_overdue(error, began_ms)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next call raises it
                self.failure = error
            pause_ms = min(PAUSE_SHARE * (self._clock.monotonic_ms() - began_ms), PAUSE_MAX_MS)
            return max(self._linger_ms, pause_ms, 1) if self.is_begun else None

    def _tell_if_overdue(self, error: Exception, began_ms: int) -> None:
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = began_ms
        if self._clock.monotonic_ms() - self._unanswered_since_ms >= self._delivery_timeout_ms:
            self.failure, self._unanswered_since_ms = error, None
