"""The connections of one process to one store.

A list of idle ones needs no lock, since taking from it and adding to it are each one call. So no fork can find a lock
held. A forked child begins with an empty list, and leaves its parent's connections alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncelog.errors import IllegalStateTransitionError
from oncelog.znodes.postgres.connection import StoreConnection

IDLE_MAX = 2
"""Connections that are kept for later: each is a process of the server."""


class Visit:
    """One use of the pool by a thread, with one connection at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: StoreConnection | None = None

    def connection(self, deadline_s: float) -> StoreConnection:
        """The connection of this visit; another one if it has none, or one that is broken.

        Args:
            deadline_s: when requests on it are given up, by `time.monotonic`.
        """
        self._pool.ensure_open()
        if self._connection is not None and self._connection.is_broken:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._pool.take(deadline_s)
        self._connection.wait_until(deadline_s)
        return self._connection

    def end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.take_back(connection)


class ConnectionPool:
    """Connections, each lent to one thread at a time.

    Args:
        connect: opens one; its argument is when to give up, by `time.monotonic`.
    """

    def __init__(self, connect: Callable[[float], StoreConnection]) -> None:
        self._connect = connect
        self._is_closed = False
        self._pid = os.getpid()
        self._idle: list[StoreConnection] = []

    @contextmanager
    def visited(self) -> Iterator[Visit]:
        self.ensure_open()
        visit = Visit(self)
        try:
            yield visit
        finally:
            visit.end()

    def ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed")

    def take(self, deadline_s: float) -> StoreConnection:
        idle = self._own()
        while idle:
            try:
                return idle.pop()
            except IndexError:  # another thread was faster
                break
        return self._connect(deadline_s)

    def take_back(self, connection: StoreConnection) -> None:
        idle = self._own()
        is_fit = not (connection.is_inherited or connection.is_broken or connection.is_in_transaction)
        if is_fit and len(idle) < IDLE_MAX:
            idle.append(connection)
        else:
            connection.close()
        if self._is_closed:
            self._drop(idle)

    def forget_idle(self) -> None:
        """Close the idle connections: the server is likely to have lost them, too."""
        self._drop(self._own())

    def close(self) -> None:
        """Close idle connections now, and lent ones when they come back."""
        self._is_closed = True
        self._drop(self._own())

    def _own(self) -> list[StoreConnection]:
        if self._pid != os.getpid():
            inherited, self._idle, self._pid = self._idle, [], os.getpid()
            self._drop(inherited)
        return self._idle

    @staticmethod
    def _drop(idle: list[StoreConnection]) -> None:
        while idle:
            try:
                idle.pop().close()
            except IndexError:
                break
