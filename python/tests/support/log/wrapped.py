"""A znode store over another one, for tests that change a part of what it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from oncelog.ports import Op, Timing, Watch, Znode, ZnodeReader, ZnodeStore
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh


class WrappedStore(Transacting):
    """`ports.ZnodeStore` that asks `store` for everything but `transact`, which it does by its own methods."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    def inner(self) -> ZnodeStore:
        """The other store, for a call that reads or writes; raises if the test lets none pass."""
        return self._store

    def reading(self, reader: ZnodeReader) -> ZnodeReader:
        """A reader over one of the other store's, or over that store itself."""
        return reader

    @property
    def reads_are_atomic(self) -> bool:
        return self._store.reads_are_atomic

    @property
    def joins_steps(self) -> bool:  # type: ignore[override]
        return self._store.joins_steps

    @property
    def timing(self) -> Timing:
        return self._store.timing

    def get(self, path: str) -> Znode | None:
        return self.reading(self.inner()).get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return self.reading(self.inner()).get_many(paths)

    def children(self, path: str) -> list[str]:
        return self.reading(self.inner()).children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return self.reading(self.inner()).children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with self.inner().snapshot() as reader:
            yield self.reading(reader)

    def recent(self) -> AbstractContextManager[ZnodeReader] | None:
        recent = self.inner().recent()
        return None if recent is None else self._recent(recent)

    @contextmanager
    def _recent(self, recent: AbstractContextManager[ZnodeReader]) -> Iterator[ZnodeReader]:
        with recent as reader:
            yield self.reading(reader)

    def watch(self) -> AbstractContextManager[Watch]:
        return self.inner().watch()

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        self.inner().multi(ops, is_fresh=is_fresh)

    def sync(self) -> None:
        self.inner().sync()

    def close(self) -> None:
        self._store.close()
