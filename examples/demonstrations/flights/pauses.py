"""A server that stands still now and then."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from flights.beside import beside
from oncelog.testing.server_process import ServerProcess

SERVES_S = 15.0
STANDS_STILL_S = 2.0


def standing_still(
    server: ServerProcess, *, serves_s: float = SERVES_S, stands_still_s: float = STANDS_STILL_S
) -> AbstractContextManager[None]:
    """During the block, pause the server again and again; behind it the server serves.

    It goes on from a thread of its own, because the event loop stands still, too, when something in it waits for the
    server: then nobody would resume it.

    Args:
        server: that is paused.
        serves_s: how long it serves before each pause.
        stands_still_s: how long a pause is.
    """

    def pauses(is_over: threading.Event) -> None:
        while not is_over.wait(serves_s):
            server.pause()
            is_over.wait(stands_still_s)
            server.resume()

    return beside(pauses)
