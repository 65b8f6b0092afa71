"""Work in the background, by threads: `ports.Background` of a real process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Threads:
    """A thread for each piece of work; it ends with the block that needs it."""

    @contextmanager
    def every_ms(self, pause_ms: int, action: Callable[[], bool], *, name: str) -> Iterator[None]:
        """See `ports.Background`."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(pause_ms / 1000) and action():
                pass

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
