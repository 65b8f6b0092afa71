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
        self._lent: set[StoreConnection] = set()
        self._is_closed = False
        self.visits = 0
        """How many connections are lent or being opened; counted by the gate."""
        _gate.pools.add(self)

    @contextmanager
    def lent(self) -> Iterator[StoreConnection]:
        """A connection for the time of the block."""
        connection = self._lend()
        try:
            yield connection
        finally:
            if not connection.is_inherited:
                self._take_back(connection)

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with _gate.changed:
            self._is_closed = True
            self.close_idle()

    def close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def disown_inherited(self) -> bool:
        """In a forked child: give up what the parent had open. Returns whether there was, or may be, anything."""
        inherited = [*self._idle, *self._lent]
        for connection in inherited:
            connection.disown()
        was_in_use = bool(inherited or self.visits)
        self._idle, self._lent, self.visits = [], set(), 0
        return was_in_use

    def _lend(self) -> StoreConnection:
        _gate.enter(self)
        try:
            if self._is_closed:
                raise IllegalStateTransitionError("the znode store is closed", path=self.path)
            if self.path in _gate.unusable_paths:
                raise IllegalStateTransitionError(
                    "this process was forked inside a step or snapshot of the znode store and cannot use it; "
                    "fork before or after it, or start the process with the method `spawn`",
                    path=self.path,
                )
            with _gate.changed:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
            self._lent.add(connection)
        except BaseException:
            _gate.leave(self)
            raise
        return connection

    def _take_back(self, connection: StoreConnection) -> None:
        try:
            with _gate.changed:
                self._lent.discard(connection)
                if not self._is_closed and not connection.is_broken:
                    self._idle.append(connection)
                    return
            connection.close()
        finally:
            _gate.leave(self)


class _ThreadVisits(threading.local):
    count = 0


class _ForkGate:
    """Keeps a fork and the use of connections apart; one for the process, since forking concerns all of it.

    The lock `changed` is held during the fork itself, so that nobody enters then.
    """

    def __init__(self) -> None:
        self.pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()
        self.unusable_paths: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self.changed = threading.Condition()
        self._own = _ThreadVisits()
        self._visits = 0
        self._forks = 0

    def enter(self, pool: ConnectionPool) -> None:
        """Begin to use a connection. Waits for a fork under way, unless the fork waits for this very thread."""
        with self.changed:
            self.changed.wait_for(lambda: not self._forks or self._own.count)
            self._visits += 1
            pool.visits += 1
        self._own.count += 1

    def leave(self, pool: ConnectionPool) -> None:
        self._own.count -= 1
        with self.changed:
            self._visits -= 1
            pool.visits -= 1
            if self._forks:
                self.changed.notify_all()

    def before_fork(self) -> None:
        self.changed.acquire()
        self._forks += 1
        self.changed.wait_for(lambda: self._visits <= self._own.count, FORK_WAIT_MS / 1000)
        for pool in self.pools:
            pool.close_idle()

    def after_fork_in_parent(self) -> None:
        self._forks -= 1
        self.changed.notify_all()
        self.changed.release()

    def after_fork_in_child(self) -> None:
        self._reset()
        self.unusable_paths.update(pool.path for pool in list(self.pools) if pool.disown_inherited())


_gate = _ForkGate()
os.register_at_fork(
    before=_gate.before_fork, after_in_parent=_gate.after_fork_in_parent, after_in_child=_gate.after_fork_in_child
)
