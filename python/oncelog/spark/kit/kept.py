"""What a process of Spark keeps open. Its many short-lived objects are pickled; connections are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Closeable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closeable)


class KeptOpen(Generic[C]):
    """Connections of this process, one for each key. A forked child opens its own."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, Hashable], C] = {}

    def get(self, key: Hashable, opened: Callable[[], C], is_usable: Callable[[C], bool] = lambda _: True) -> C:
        """The connection of this key, opened if there is none, or none that is usable any more."""
        own = os.getpid(), key
        if own not in self._open or not is_usable(self._open[own]):
            self._open[own] = opened()
        return self._open[own]

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1].close()
