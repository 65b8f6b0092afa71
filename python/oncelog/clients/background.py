"""Background work in threads: the `ports.Background` of a real process."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - pyarrow's first array imports it, which fails once the program is over
import multiprocessing
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import util

from oncelog.ports import EndsWithProcess


class Threads:
    """Starts a daemon thread for each piece of work. It ends with its block or its work, and never delays the exit."""

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

    def later(self, delay_ms: int, action: Callable[[], int | None], *, name: str) -> None:
        """See `ports.Background`. Raises a RuntimeError if no thread can be started, as while the process ends."""

        def run() -> None:
            pause_ms: int | None = delay_ms
            while pause_ms is not None:
                time.sleep(pause_ms / 1000)
                pause_ms = action()

        threading.Thread(target=run, name=name, daemon=True).start()

    def lock(self) -> AbstractContextManager[object]:
        """See `ports.Background`. Entered and left by one C call each, so a signal handler cannot interrupt either."""
        return threading.RLock()

    def at_exit(self, client: EndsWithProcess) -> None:
        """See `ports.Background`."""
        _clients.add(client)
        if multiprocessing.parent_process() is not None and os.getpid() not in _finalized:
            _finalized.add(os.getpid())
            util.Finalize(None, _end_all, exitpriority=0)  # multiprocessing's children do not run `atexit`


_clients: weakref.WeakSet[EndsWithProcess] = weakref.WeakSet()
_finalized: set[int] = set()
"""Ids of processes that registered a multiprocessing finalizer; a fork inherits its parent's."""


@atexit.register
def _end_all() -> None:
    for client in list(_clients):
        client.end_with_process()
