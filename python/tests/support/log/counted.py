"""A znode store that counts what is asked of it: what an operation costs on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncelog.ports import Op, Znode, ZnodeReader, ZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from tests.support.log.wrapped import WrappedStore


class CountedStore(WrappedStore):
    """Counts.

    Attributes:
        znodes: how many were read and written. Each name in a list counts, and each check of a version.
        requests: how often it was asked; what is read together is asked for once, and nothing is not asked for.
    """

    def __init__(self, store: ZnodeStore) -> None:
        super().__init__(store)
        self.znodes = self.requests = 0

    def cost_of(self, work: Callable[[], object]) -> int:
        """How many znodes an operation reads and writes."""
        before = self.znodes
        work()
        return self.znodes - before

    def requests_of(self, work: Callable[[], object]) -> int:
        """How often an operation asks."""
        before = self.requests
        work()
        return self.requests - before

    def count(self, znodes: int) -> None:
        """Count a request for so many znodes."""
        self.requests += znodes > 0
        self.znodes += znodes

    def reading(self, reader: ZnodeReader) -> ZnodeReader:
        return _CountedReader(self, reader)

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        self.count(len(ops))
        super().multi(ops, is_fresh=is_fresh)


class _CountedReader:
    """`ports.ZnodeReader` whose znodes the store counts."""

    def __init__(self, counts: CountedStore, reader: ZnodeReader) -> None:
        self._counts = counts
        self._reader = reader

    def get(self, path: str) -> Znode | None:
        self._counts.count(1)
        return self._reader.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        found = self._reader.get_many(paths)
        self._counts.count(len(found))
        return found

    def children(self, path: str) -> list[str]:
        found = self._reader.children(path)
        self._counts.count(1 + len(found))
        return found

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        found = self._reader.children_data(path)
        self._counts.count(1 + len(found))
        return found
