"""Waiting for others: what a store does that hears of no changes, and what those share that do."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.limits import LOOK_MS
from oncelog.ports import Clock, Znode


class Looks:
    """`ports.Watch` of a store that hears of no changes: every pause, of `every_ms`, may have brought one."""

    def __init__(self, clock: Clock, every_ms: int = LOOK_MS) -> None:
        self._clock = clock
        self._every_ms = every_ms

    def wait(self, paths: Iterable[str], timeout_ms: int) -> None:
        self._clock.sleep_ms(min(self._every_ms, timeout_ms))


def has_changed(znodes: Iterable[Znode | None], since_zxid: int) -> bool:
    """Whether one of the znodes was written after the multi `since_zxid`, or is gone."""
    return any(znode is None or znode.stat.mzxid > since_zxid for znode in znodes)
