"""The connections of one process to one file, and what happens to them when the process forks.

SQLite keeps in each process a table of the locks that the process holds on a file. A forked child inherits the table
but not the locks: while it lists an open connection of the parent, the child's own new connections believe that the
file is locked already and lock nothing. The parent may then remove the write-ahead log under the child, whose
acknowledged commits are lost. (Tried with SQLite 3.40: a fresh connection in the child, the inherited one untouched.)
Hence a process closes its connections before each fork, waits for its other threads to be done with theirs, and lets
nobody open one until the fork is over. Both sides then open new ones at the next use.

What is in use even then belongs to the forking thread itself, which forked inside a step or a snapshot, or to a thread
that was not done within FORK_WAIT_MS. The child never uses and never closes such a connection (closing could remove the
parent's write-ahead log), and cannot use that file at all: it gets an error that says so.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncelog.errors import IllegalStateTransitionError
from oncelog.limits import FORK_WAIT_MS
from oncelog.znodes.sqlite.connection import StoreConnection


class _Visit:
    """One use of a pool by a thread. It ends once its connection is idle or closed, also where a signal comes between.

    A handler that raises does so where Python code begins or a C function was called. Hence what a signal must not
    part is here one C call, or an assignment right before one; all else may be done twice.
    """

    __slots__ = ("connection", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.connection: StoreConnection | None = None


class ConnectionPool:
    """Connections to one file, each lent to one thread at a time.

    Args:
        path: of the file, the same text for the same file.
        connect: opens a connection.
    """

    def __init__(self, path: str, connect: Callable[[], StoreConnection]) -> None:
        self.path = path
        self._connect = connect
        self._idle: list[StoreConnection] = []
        self._is_closed = False
        self.visits: set[_Visit] = set()
        """For what is lent or being opened; changed by the gate."""
        with _gate.lock:
            _gate.pools.add(self)

    @contextmanager
    def lent(self) -> Iterator[StoreConnection]:
        """A connection for the time of the block."""
        visit = _Visit()
        try:
            yield self._lend(visit)
        finally:
            try:
                self._take_back(visit)
            except BaseException:
                self._take_back(visit)
                raise

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with _gate.lock:
            self._is_closed = True
            self.close_idle()

    def close_idle(self) -> None:
        while self._idle:
            self._idle[-1].close()
            self._idle.pop()

    def disown_inherited(self) -> bool:
        """In a forked child: give up what the parent had open. Returns whether there was, or may be, anything."""
        was_in_use = bool(self._idle or self.visits)
        for connection in [*self._idle, *(visit.connection for visit in self.visits)]:
            if connection is not None:
                connection.disown()
        self._idle, self.visits = [], set()
        return was_in_use

    def _lend(self, visit: _Visit) -> StoreConnection:
        _gate.enter(self, visit)
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed", path=self.path)
        if self.path in _gate.unusable_paths:
            raise IllegalStateTransitionError(
                "this process was forked inside a step or snapshot of the znode store and cannot use it; "
                "fork before or after it, or start the process with the method `spawn`",
                path=self.path,
            )
        with _gate.lock:
            if self._idle:
                visit.connection = self._idle.pop()
        if visit.connection is None:
            visit.connection = self._connect()
        return visit.connection

    def _take_back(self, visit: _Visit) -> None:
        with _gate.lock:
            connection = visit.connection
            if connection is not None and self._keeps(connection):
                visit.connection = None
                self._idle.append(connection)
        if visit.connection is not None:
            visit.connection.close()
        _gate.leave(self, visit)

    def _keeps(self, connection: StoreConnection) -> bool:
        return not (self._is_closed or connection.is_inherited or connection.is_broken or connection.is_in_transaction)


class _ForkGate:
    """Keeps a fork and the use of connections apart; one for the process, since forking concerns all of it.

    The lock is held during the fork itself, so that nobody enters then. It is entered by its own name, never by that of
    its condition: `Condition.__enter__` is Python code, and a signal in it would leave the lock held.
    """

    def __init__(self) -> None:
        self.pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()
        self.unusable_paths: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._forking: set[int] = set()

    def enter(self, pool: ConnectionPool, visit: _Visit) -> None:
        """Begin to use a connection. Waits for a fork under way, unless the fork waits for this very thread."""
        with self.lock:
            if self._forking:
                self._changed.wait_for(lambda: not self._forking or visit.thread in self._visitors())
            pool.visits.add(visit)

    def leave(self, pool: ConnectionPool, visit: _Visit) -> None:
        with self.lock:
            pool.visits.discard(visit)
            if self._forking:
                self._changed.notify_all()

    def before_fork(self) -> None:
        self.lock.acquire()
        thread = threading.get_ident()
        self._forking.add(thread)
        self._changed.wait_for(lambda: self._visitors() <= {thread}, FORK_WAIT_MS / 1000)
        for pool in self.pools:
            pool.close_idle()

    def after_fork_in_parent(self) -> None:
        try:
            self._forking.discard(threading.get_ident())
            self._changed.notify_all()
        finally:
            self.lock.release()

    def after_fork_in_child(self) -> None:
        self._reset()
        self.unusable_paths.update(pool.path for pool in list(self.pools) if pool.disown_inherited())

    def _visitors(self) -> set[int]:
        """The threads that use a connection or open one."""
        return {visit.thread for pool in self.pools for visit in tuple(pool.visits)}


_gate = _ForkGate()
os.register_at_fork(
    before=_gate.before_fork, after_in_parent=_gate.after_fork_in_parent, after_in_child=_gate.after_fork_in_child
)
