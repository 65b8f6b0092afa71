"""The znode store in memory: the reference for ZooKeeper's rules, and the simulator's store.

It lives in one process and ends with it. Threads may share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from oncelog.errors import IllegalStateTransitionError, UsageError
from oncelog.ports import ANY_VERSION, Check, Clock, Create, Delete, Op, Set, Stat, Timing, Znode, ZnodeReader
from oncelog.znodes.clock import SYSTEM_CLOCK, uniform_jitter, wall_ms
from oncelog.znodes.errors import MultiFailedError, Refusal, StaleStepError
from oncelog.znodes.rules import ROOT, ensure_acceptable, join_path, split_path
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh


class MemoryZnodeStore(Transacting):
    """`ports.ZnodeStore` in memory.

    Args:
        now_ms: wall clock for ctimes and mtimes.
        clock: durations and waiting of `transact`.
        jitter: numbers in [0, 1) that spread the tries of conflicting steps.
    """

    reads_are_atomic = True

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = wall_ms,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] = uniform_jitter,
    ) -> None:
        self.timing = Timing(now_ms, clock, jitter)
        self._lock = threading.RLock()
        self._tree = _Tree()
        self._zxid = 0
        self._last_ms = 0
        self._is_closed = False

    def get(self, path: str) -> Znode | None:
        with self._lock:
            return self._open_tree().get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        with self._lock:
            return self._open_tree().get_many(paths)

    def children(self, path: str) -> list[str]:
        with self._lock:
            return self._open_tree().children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        with self._lock:
            return self._open_tree().children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with self._lock:
            tree = self._open_tree()
            tree.readers += 1
        try:
            yield tree
        finally:
            with self._lock:
                tree.readers -= 1

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)
        with self._lock:
            tree = self._open_tree()
            if not is_fresh():
                raise StaleStepError("the step read its znodes too long ago to write by them")
            if tree.readers:
                tree = self._tree = tree.copy()  # open snapshots keep the old one
            now_ms = max(self._last_ms, self.timing.now_ms())
            tree.apply(ops, self._zxid + 1, now_ms)
            if not all(isinstance(op, Check) for op in ops):
                self._zxid, self._last_ms = self._zxid + 1, now_ms

    def fork(self) -> MemoryZnodeStore:
        """A store of its own that holds the same znodes: for searches that try what may follow."""
        twin = MemoryZnodeStore(now_ms=self.timing.now_ms, clock=self.timing.clock, jitter=self.timing.jitter)
        with self._lock:
            twin._tree, twin._zxid, twin._last_ms = self._open_tree().copy(), self._zxid, self._last_ms
        return twin

    def sync(self) -> None:
        """Nothing to do: reads see every write that was acknowledged."""

    def close(self) -> None:
        self._is_closed = True

    def __reduce__(self) -> NoReturn:
        raise UsageError("a znode store in memory cannot leave its process: use znodes=sqlite or znodes=zk://...")

    def _open_tree(self) -> _Tree:
        """Called under the lock."""
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed")
        return self._tree


class _Tree:
    """Znodes and the names below each. Never changed while a snapshot reads it.

    Copies share their sets of names; `_own` are the paths whose set this tree may change.
    """

    def __init__(self) -> None:
        self.znodes = {ROOT: Znode(b"", Stat(czxid=0, mzxid=0, ctime_ms=0, mtime_ms=0, version=0))}
        self.names: dict[str, set[str]] = {ROOT: set()}
        self.readers = 0
        self._own = {ROOT}

    def copy(self) -> _Tree:
        twin = _Tree()
        twin.znodes, twin.names = self.znodes.copy(), self.names.copy()
        self._own, twin._own = set(), set()
        return twin

    def get(self, path: str) -> Znode | None:
        split_path(path)
        return self.znodes.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [self.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        split_path(path)
        return sorted(self.names.get(path, ()))

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return [(name, self.znodes[join_path(path, name)]) for name in self.children(path)]

    def apply(self, ops: Sequence[Op], zxid: int, now_ms: int) -> None:
        """Apply all operations, or none and raise MultiFailedError."""
        before: list[tuple[str, Znode | None]] = []
        for index, op in enumerate(ops):
            refusal = self._refusal(op)
            if refusal is not None:
                for path, znode in reversed(before):
                    self._put(path, znode)
                raise MultiFailedError.at(index, op.path, refusal)
            before.append((op.path, self.znodes.get(op.path)))
            self._carry_out(op, zxid, now_ms)

    def _refusal(self, op: Op) -> Refusal | None:
        """ZooKeeper's conditions, in its order."""
        znode = self.znodes.get(op.path)
        if isinstance(op, Create):
            if op.path != ROOT and split_path(op.path)[0] not in self.znodes:
                return Refusal.NO_NODE
            return Refusal.NODE_EXISTS if znode is not None else None
        if znode is None:
            return Refusal.NO_NODE
        if op.version not in (ANY_VERSION, znode.stat.version):
            return Refusal.BAD_VERSION
        return Refusal.NOT_EMPTY if isinstance(op, Delete) and self.names[op.path] else None

    def _carry_out(self, op: Op, zxid: int, now_ms: int) -> None:
        match op:
            case Check():
                pass
            case Create(path, data):
                self._put(path, Znode(data, Stat(zxid, zxid, now_ms, now_ms, version=0)))
            case Set(path, data):
                stat = self.znodes[path].stat
                self._put(path, Znode(data, Stat(stat.czxid, zxid, stat.ctime_ms, now_ms, stat.version + 1)))
            case Delete(path):
                self._put(path, None)

    def _put(self, path: str, znode: Znode | None) -> None:
        """Make the znode at `path` this one, or none."""
        parent, name = split_path(path)
        if znode is None:
            del self.znodes[path], self.names[path]
            self._own_names(parent).discard(name)
        else:
            self.znodes[path] = znode
            if path not in self.names:
                self.names[path] = set()
                self._own.add(path)
                self._own_names(parent).add(name)

    def _own_names(self, path: str) -> set[str]:
        """The names below `path`, to be changed."""
        if path not in self._own:
            self.names[path] = set(self.names[path])
            self._own.add(path)
        return self.names[path]
