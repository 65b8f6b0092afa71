"""The connections of one process to one file, and their handling when the process forks.

In each process, SQLite has a table of the locks that the process holds on a file. A forked child inherits the table but
not the locks. While the table lists an open connection of the parent, new connections of the child take the file for
already locked, and lock nothing. The parent may then remove the write-ahead log that the child uses, and the child's
acknowledged commits are lost. (Tested with SQLite 3.40: a new connection in the child, the inherited one unused.) So
before each fork, a process closes its idle connections and waits until its other threads are done with theirs, and no
thread can open one until the fork is over. Afterwards both processes open new ones at their next use.

A connection that is still in use then belongs to the forking thread itself, which forked inside a step or a snapshot,
or to a thread that was not done within FORK_WAIT_MS. The child must never use or close such a connection (closing could
remove the parent's write-ahead log). It cannot use this file at all, and gets an error that says so.
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
    """One use of a pool by a thread. It ends when its connection is idle or closed, even if a signal interrupts.

    A signal handler can raise when Python code begins, or after a call of a C function. So everything that a signal
    must not divide is one C call, or an assignment right before one. Everything else may be done twice.
    """

    __slots__ = ("connection", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.connection: StoreConnection | None = None


class ConnectionPool:
    """Connections to one file, each lent to one thread at a time.

    Args:
        path: of the file; always the same string for the same file.
        connect: opens a connection.
    """

    def __init__(self, path: str, connect: Callable[[], StoreConnection]) -> None:
        self.path = path
        self._connect = connect
        self._idle: list[StoreConnection] = []
        self._is_closed = False
        self.visits: set[_Visit] = set()
        """Visits whose connections are lent or being opened. Only the gate changes it."""
        with _gate.lock:
            _gate.pools.add(self)

    @contextmanager
    def lent(self) -> Iterator[StoreConnection]:
        """A connection to use within the block."""
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
        """Close idle connections now, and lent ones when they come back."""
        with _gate.lock:
            self._is_closed = True
            self.close_idle()

    def close_idle(self) -> None:
        while self._idle:
            self._idle[-1].close()
            self._idle.pop()

    def disown_inherited(self) -> bool:
        """In a forked child: disown the parent's connections. Returns whether there were, or may have been, any."""
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
    """Separates forks from the use of connections. There is one per process, since a fork concerns the whole process.

    The lock is held during the fork itself, so that nobody enters then. It is always acquired directly, and never
    through its condition: `Condition.__enter__` is Python code, and a signal in it would leave the lock held.
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
        """Begin to use a connection. Wait while a fork is in progress, unless the fork waits for this thread."""
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
        """The threads that use or open a connection."""
        return {visit.thread for pool in self.pools for visit in tuple(pool.visits)}


_gate = _ForkGate()
os.register_at_fork(
    before=_gate.before_fork, after_in_parent=_gate.after_fork_in_parent, after_in_child=_gate.after_fork_in_child
)
