"""Waiting for what other processes, threads and servers do: tests look again and again, and give up with a reason."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1
GROWTH = 1.5
"""Pauses grow: what comes at once is seen at once, and what takes long is not slowed down by who waits for it."""


def until(is_reached: Callable[[], object], *, within_s: float = 120, tell: Callable[[], object] | None = None) -> None:
    """Wait until something is so. What `is_reached` raises is raised at once.

    Args:
        is_reached: gives something true when it is so.
        within_s: how long it may take; it is looked at once in any case.
        tell: says how things stand, for the reader of a failure.

    Raises:
        TimeoutError: it is not so within the time.
    """
    deadline_s = time.monotonic() + within_s
    pause_s = FIRST_PAUSE_S
    while not is_reached():
        if time.monotonic() > deadline_s:
            told = f": {tell()}" if tell else ""
            raise TimeoutError(f"waited {within_s} s in vain{told}")
        time.sleep(pause_s)
        pause_s = min(GROWTH * pause_s, LONGEST_PAUSE_S)
