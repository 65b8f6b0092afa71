"""Waiting for what other programs do, without holding up what goes on beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from flights.processes import Program, ProgramFailedError

PATIENCE_S = 600.0
PAUSE_S = 0.05


async def until(
    is_done: Callable[[], bool],
    what: str,
    *busy: Program,
    meanwhile: Callable[[], None] = lambda: None,
    pause_s: float = PAUSE_S,
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait until something is done.

    Args:
        is_done: whether it is.
        what: it is, for the error: "did not ... within 600 s".
        busy: programs that work on it, so that none of them may end before.
        meanwhile: called with each look.
        pause_s: between two looks.
        patience_s: how long it may take.

    Raises:
        ProgramFailedError: one of them ended early, or it takes too long.
    """
    deadline_s = time.monotonic() + patience_s
    while not is_done():
        for program in busy:
            if program.status is not None and not is_done():
                raise program.failed(f"ended before it could {what}")
        if time.monotonic() > deadline_s:
            problem = f"did not {what} within {patience_s:.0f} s"
            raise busy[0].failed(problem) if busy else ProgramFailedError(f"the run {problem}")
        meanwhile()
        await asyncio.sleep(pause_s)
