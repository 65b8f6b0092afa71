"""The znode store in memory: the reference for all other stores, and the simulator's store.

It ends with its process. Threads may share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from oncelog.errors import IllegalStateTransitionError, UsageError
from oncelog.ports import Clock, Op, Timing, Znode, ZnodeReader
from oncelog.znodes.clock import SYSTEM_CLOCK, uniform_jitter, wall_ms
from oncelog.znodes.rules import ensure_acceptable
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh
from oncelog.znodes.tree import Tree


class MemoryZnodeStore(Transacting):
    """`ports.ZnodeStore` in memory.

    Args:
        now_ms, clock, jitter: see `ports.Timing`.
    """

    reads_are_atomic = True

    def __repr__(self) -> str:
        return "MemoryZnodeStore()"

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = wall_ms,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] = uniform_jitter,
    ) -> None:
        self.timing = Timing(now_ms, clock, jitter)
        self._lock = threading.RLock()
        self._tree = Tree()
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
            ensure_fresh(is_fresh)
            if tree.readers:
                tree = self._tree = tree.copy()  # open snapshots keep the old tree
            tree.apply(ops, self.timing.now_ms())

    def fork(self) -> MemoryZnodeStore:
        """An independent store with the same znodes, for searches that try several continuations."""
        twin = MemoryZnodeStore(now_ms=self.timing.now_ms, clock=self.timing.clock, jitter=self.timing.jitter)
        with self._lock:
            twin._tree = self._open_tree().copy()
        return twin

    def sync(self) -> None:
        """Nothing to do: reads see all acknowledged writes."""

    def close(self) -> None:
        self._is_closed = True

    def __reduce__(self) -> NoReturn:
        raise UsageError("a znode store in memory cannot leave its process: use znodes=sqlite or znodes=zk://...")

    def _open_tree(self) -> Tree:
        """Called under the lock."""
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed")
        return self._tree
