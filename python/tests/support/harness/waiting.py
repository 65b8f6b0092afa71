"""Waiting for what other processes, threads and servers do: tests look again and again, and give up with a reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120
"""How long anything may take, on a busy machine too. A test that waits so long has failed."""

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1
GROWTH = 1.5
"""Pauses grow: what comes at once is seen at once, and what takes long is not slowed down by who waits for it."""


T = TypeVar("T")


def until(find: Callable[[], T], *, within_s: float = PATIENCE_S, tell: Callable[[], object] | None = None) -> T:
    """Wait until something is so. What `find` raises is raised at once.

    Args:
        find: gives something true when it is so.
        within_s: how long it may take; it is looked at once in any case.
        tell: says how things stand, for the reader of a failure.

    Returns:
        What was found.

    Raises:
        TimeoutError: it is not so within the time.
    """
    deadline_s = time.monotonic() + within_s
    pause_s = FIRST_PAUSE_S
    while not (found := find()):
        if time.monotonic() > deadline_s:
            told = f": {tell()}" if tell else ""
            raise TimeoutError(f"waited {within_s} s in vain{told}")
        time.sleep(pause_s)
        pause_s = min(GROWTH * pause_s, LONGEST_PAUSE_S)
    return found
