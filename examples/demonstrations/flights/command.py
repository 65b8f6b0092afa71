"""How an example is run: its exit status, and an end that leaves nothing behind, whatever ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from rich.console import Console

from flights.processes import ProgramFailedError


def interrupted_by_signals() -> None:
    """From now on Ctrl-C, SIGTERM and a closed terminal are a KeyboardInterrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def run(main: Callable[[Console], Coroutine[Any, Any, int]]) -> int:
    """Run an example; returns its exit status. Ctrl-C, SIGTERM and a closed terminal end everything it started."""
    interrupted_by_signals()
    console = Console()
    try:
        return asyncio.run(main(console))
    except* ProgramFailedError as failures:
        for failure in failures.exceptions:
            console.print(str(failure), style="red", markup=False, highlight=False)
    except* KeyboardInterrupt:
        console.print("Stopped; nothing is left running.")
    return 2
