"""Servers that do not respond: a host that is frozen or out of memory keeps its connections, and answers nothing.

TCP does not tell them from servers with much to do, and a statement may take as long as it does. So who waits for one
asks the server something else meanwhile, every `timeout_ms`: whether it takes another connection. Behind a pooler, the
pooler is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from oncelog.errors import OncelogError
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.connection import StoreConnection
from oncelog.znodes.postgres.failures import NotNowError
from oncelog_postgres.errors import DatabaseUnavailableError

T = TypeVar("T")


def stands_still(address: PostgresAddress) -> bool:
    """Whether the server lets a new connection wait until the time-out. One that refuses it does respond."""
    deadline_s = time.monotonic() + address.timeout_ms / 1000
    with suppress(NotNowError, OncelogError):
        StoreConnection(address, deadline_s).close()
        return False
    return time.monotonic() >= deadline_s


def watched(address: PostgresAddress, work: Callable[[], T]) -> T:
    """What `work` returns, or raises, whose requests to the server cannot be interrupted.

    Raises:
        DatabaseUnavailableError: the server is not responding. The thread of the work goes on; a task's process ends.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as problem:  # noqa: BLE001 - raised where it is waited for
            outcome.set_exception(problem)

    Thread(target=run, name="oncelog-copy", daemon=True).start()
    while not wait([outcome], timeout=address.timeout_ms / 1000).done:
        if stands_still(address):
            raise no_answer(address)
    return outcome.result()


def no_answer(address: PostgresAddress) -> DatabaseUnavailableError:
    """The error for a server that is not responding."""
    return DatabaseUnavailableError(
        "the database server is not responding: the request timed out and new connections are refused; check its host",
        database=str(address),
        timeout_ms=address.timeout_ms,
    )
