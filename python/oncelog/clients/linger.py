"""Flushes a producer's records in the background, soon after they were sent.

Owns the lock by which the user's calls and these flushes take turns, and the error of a flush until the next call
raises it. clients/delivery.py is the only caller.

Every record is flushed. Assumptions: the delivery holds the lock when it calls `begin`, before it takes a record; the
background work holds the lock when it finds that nothing is unsent, and ends only then; signals interrupt only the main
thread. Hence the work continues as long as any record is unsent, even if the call that took it was interrupted, and a
flush in the background is never interrupted. It continues what an interrupted flush left, as the next `flush` would.

Each send takes the lock: a record that entered the buffer while a flush turns it into columns would be lost, although
its receipt would have an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from oncelog.errors import OutcomeUnknownError, RetriableError
from oncelog.ports import Background, Clock

PAUSE_SHARE = 9
PAUSE_MAX_MS = 1_000
"""After a flush in the background comes a pause nine times as long, up to a second. So a program that sends all the
time waits for at most a tenth of it, and its batches grow until the buffer fills up within the pause."""


class Linger:
    """The background flushes of one producer.

    Args:
        linger_ms: how long a record waits for its flush; longer if the flush before it took long.
        delivery_timeout_ms: after this long without an answer, the next call raises the error; the flushes continue.

    Attributes:
        lock: held while the unsent records change.
        failure: an error that no call has raised yet.
        is_begun: whether a flush is scheduled, so that `begin` has nothing to do.
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
        """Call `flush` soon, and again until it returns False: nothing was unsent. Safe to call again."""
        if self.is_begun:
            return
        with suppress(RuntimeError):  # no thread could be started: the next record or the exit of the process retries
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
