"""A store's sources of time: wall clock, durations and jitter. A simulator can replace each of them.

The clock for durations keeps running while the machine is suspended, because a step's reads age during that time, too.
"""

from __future__ import annotations

import random
import time
from typing import Final

from oncelog.ports import Timing, ZnodeStore, ZnodeView
from oncelog.znodes import paths

_DURATIONS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux, CLOCK_MONOTONIC stops while the machine is suspended; elsewhere it does not."""


class SystemClock:
    """The machine's clocks, as `ports.Clock`."""

    def now_ms(self) -> int:
        return wall_ms()

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(_DURATIONS) // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


SYSTEM_CLOCK: Final = SystemClock()


def wall_ms() -> int:
    """Milliseconds since 1970 by the machine's wall clock."""
    return time.time_ns() // 1_000_000


def both_clocks(timing: Timing) -> tuple[int, int]:
    """Durations and the wall clock, for whoever asks whether something is young.

    Durations may stop while a virtual machine is paused, and the wall clock may be set back: both must say so.
    """
    return timing.clock.monotonic_ms(), timing.now_ms()


def store_now_ms(store: ZnodeStore) -> int:
    """The store's time: the mtime of ``/clock`` after a set."""

    def touch(view: ZnodeView) -> None:
        view.set_blind(paths.CLOCK, b"")

    store.transact(touch)
    znode = store.get(paths.CLOCK)
    return 0 if znode is None else znode.stat.mtime_ms


def uniform_jitter() -> float:
    """A random number in [0, 1). A module-level function, so that a store that refers to it can be pickled."""
    return random.random()


SYSTEM_TIMING: Final = Timing(wall_ms, SYSTEM_CLOCK, uniform_jitter)
