"""Upkeep that every client does as a by-product, since there is no server.

It settles what is decided, and aborts what is beyond its time-out and holds back readers. The caller does not depend on
any of it, so errors are ignored, and the next client tries again: a commit must never look failed because the settling
after it failed. Only a violated invariant (a bug in oncelog) is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from oncelog.clients.services import LogServices
from oncelog.coordinator import sweeper
from oncelog.coordinator.settler import NotSettledError, Settler, Settling
from oncelog.errors import InvariantViolation, OncelogError, StepTooLargeError
from oncelog.log.snapshot import LogSnapshot
from oncelog.types import TopicIdPartition

_log = logging.getLogger(__name__)

SWEEP_PAUSE_MS = 1000
"""Pause between two checks of the time-outs of what holds back a reader."""


class Upkeep:
    """The upkeep of one client. Not shared between threads."""

    def __init__(self, services: LogServices) -> None:
        self._services = services
        self._settler = Settler(services.store, services.clock)
        self._swept_ms = services.clock.monotonic_ms()

    def after_writing(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Settle what `partitions` list, if that is due."""
        with _ignoring_errors():
            self._settler.settle_if_due(partitions)

    def settling(self, partitions: Iterable[TopicIdPartition]) -> Settling | None:
        """What a step of the caller may settle of what `partitions` list; None if nothing is due.

        If the step is committed, the caller passes the result to `has_settled`.
        """
        due = []
        with _ignoring_errors():
            due.append(self._settler.step_if_due(partitions))
        return due[0] if due else None

    def has_settled(self, settling: Settling) -> None:
        """The step was committed."""
        self._settler.has_settled(settling)

    def is_to_blame(self, problem: Exception) -> bool:
        """Whether a step may have failed only because it also settled. A bug that this shows is logged."""
        if not isinstance(problem, NotSettledError | StepTooLargeError):
            return False
        if isinstance(problem.__cause__, InvariantViolation):
            _log.error(_IMPOSSIBLE, exc_info=problem)
        return True

    def after_planning(self, seen: LogSnapshot) -> None:
        """Settle what a plan saw, if that is due, and time out what held it back."""
        self.after_writing(seen.partitions)
        now_ms = self._services.clock.monotonic_ms()
        if seen.plan.blockers and now_ms - self._swept_ms >= SWEEP_PAUSE_MS:
            self._swept_ms = now_ms
            self.sweep(sorted(set(seen.plan.blockers.values())))

    def sweep(self, owners: Iterable[str]) -> None:
        """Time out those of `owners` that are overdue."""
        with _ignoring_errors():
            sweeper.sweep_owners(self._services.store, self._services.coordinator, owners)

    def unblock(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Make room in partitions that list too many owners: time out what is overdue, settle what is decided."""
        blocked = list(partitions)
        with _ignoring_errors():
            sweeper.sweep(self._services.store, self._services.coordinator, blocked)
            self._settler.settle_now(blocked)


@contextmanager
def _ignoring_errors() -> Iterator[None]:
    try:
        yield
    except OncelogError:
        pass
    except InvariantViolation:
        _log.exception(_IMPOSSIBLE)


_IMPOSSIBLE = "upkeep found an impossible state: a bug in oncelog, please report it; the call itself is done"
