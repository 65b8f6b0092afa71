"""All znodes as one tree in memory, with ZooKeeper's conditions in their simplest form.

The store in memory uses it, and so can any store that keeps all its znodes in memory (docs/guides/extending-store.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from oncelog.ports import ANY_VERSION, Check, Create, Delete, Op, Set, Stat, Znode
from oncelog.znodes.errors import MultiFailedError, Refusal
from oncelog.znodes.rules import ROOT, join_path, split_path

NEW: Final[Mapping[str, Znode]] = {ROOT: Znode(b"", Stat(czxid=0, mzxid=0, ctime_ms=0, mtime_ms=0, version=0))}
"""The znodes of a new store."""


class Tree:
    """`ports.ZnodeReader` over znodes, and the names of their children.

    Copies share their sets of names. `_own` has the paths whose sets this tree may change.

    Args:
        znodes: all znodes, including the root.
        zxid, last_ms: of the last multi that wrote.

    Attributes:
        readers: number of open snapshots of this tree. While there are any, it must not change.
    """

    def __init__(self, znodes: Mapping[str, Znode] = NEW, zxid: int = 0, last_ms: int = 0) -> None:
        self.znodes = dict(znodes)
        self.zxid = zxid
        self.last_ms = last_ms
        self.readers = 0
        self._names: dict[str, set[str]] = {path: set() for path in self.znodes}
        self._own = set(self.znodes)
        for path in self.znodes.keys() - {ROOT}:
            parent, name = split_path(path)
            self._names[parent].add(name)

    def copy(self) -> Tree:
        """An independent tree with the same znodes."""
        twin = Tree({}, self.zxid, self.last_ms)
        twin.znodes, twin._names = self.znodes.copy(), self._names.copy()
        self._own, twin._own = set(), set()
        return twin

    def get(self, path: str) -> Znode | None:
        split_path(path)
        return self.znodes.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [self.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        split_path(path)
        return sorted(self._names.get(path, ()))

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return [(name, self.znodes[join_path(path, name)]) for name in self.children(path)]

    def apply(self, ops: Sequence[Op], now_ms: int) -> bool:
        """Apply a multi.

        Args:
            now_ms: the wall clock. If it went back, the tree's time stays the same.

        Returns:
            whether it wrote anything. A multi with only checks takes no zxid.

        Raises:
            MultiFailedError: an operation's condition does not hold; nothing was applied.
        """
        zxid, now_ms = self.zxid + 1, max(self.last_ms, now_ms)
        before: list[tuple[str, Znode | None]] = []
        for index, op in enumerate(ops):
            refusal = self._refusal(op)
            if refusal is not None:
                for path, znode in reversed(before):
                    self._put(path, znode)
                raise MultiFailedError.at(index, op.path, refusal)
            before.append((op.path, self.znodes.get(op.path)))
            self._carry_out(op, zxid, now_ms)
        if all(isinstance(op, Check) for op in ops):
            return False
        self.zxid, self.last_ms = zxid, now_ms
        return True

    def _refusal(self, op: Op) -> Refusal | None:
        """Check ZooKeeper's conditions, in ZooKeeper's order."""
        znode = self.znodes.get(op.path)
        if isinstance(op, Create):
            if op.path != ROOT and split_path(op.path)[0] not in self.znodes:
                return Refusal.NO_NODE
            return Refusal.NODE_EXISTS if znode is not None else None
        if znode is None:
            return Refusal.NO_NODE
        if op.version not in (ANY_VERSION, znode.stat.version):
            return Refusal.BAD_VERSION
        return Refusal.NOT_EMPTY if isinstance(op, Delete) and self._names[op.path] else None

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
        """Replace the znode at `path`, or remove it."""
        parent, name = split_path(path)
        if znode is None:
            del self.znodes[path], self._names[path]
            self._own_names(parent).discard(name)
        else:
            self.znodes[path] = znode
            if path not in self._names:
                self._names[path] = set()
                self._own.add(path)
                self._own_names(parent).add(name)

    def _own_names(self, path: str) -> set[str]:
        """The set of names below `path`, which may be changed."""
        if path not in self._own:
            self._names[path] = set(self._names[path])
            self._own.add(path)
        return self._names[path]
