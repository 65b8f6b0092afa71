"""Logs whose metadata is on a real server, by a clock that the test drives.

The server stamps znodes by the machine's clock. `ServerTime` remembers when the test let time pass, and reads such a
stamp as the test's time, so that tests of time-outs run on a server as they are.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import overload

from oncelog import metadata
from oncelog.ports import Timing, Watch, Znode, ZnodeReader, ZnodeStore
from oncelog.znodes.clock import uniform_jitter, wall_ms
from oncelog.znodes.transact import Transacting
from tests.support.log.logs import DrivenTime, LogWorld, checked
from tests.support.log.wrapped import WrappedStore

_APART_S = 0.002
"""Stamps are in whole milliseconds: what came before a leap in time must not bear its stamp."""


class ServerTime(DrivenTime):
    """A driven clock beside a server whose clock goes on by itself."""

    def __init__(self) -> None:
        self._leaps: list[tuple[int, int]] = []  # from when on by the machine's clock, and the test's time since then
        super().__init__()

    @property
    def wall_ms(self) -> int:
        return self._leaps[-1][1]

    @wall_ms.setter
    def wall_ms(self, value: int) -> None:
        time.sleep(_APART_S)
        self._leaps.append((wall_ms(), value))

    def of(self, stamp_ms: int) -> int:
        """A time of the server as the test's."""
        at = bisect_right(self._leaps, stamp_ms, key=lambda leap: leap[0]) - 1
        return self._leaps[max(at, 0)][1]


class DrivenReader:
    """Reads znodes with the test's times."""

    def __init__(self, reader: ZnodeReader, time: ServerTime) -> None:
        self._reader = reader
        self._time = time

    def get(self, path: str) -> Znode | None:
        return self._driven(self._reader.get(path))

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [self._driven(znode) for znode in self._reader.get_many(paths)]

    def children(self, path: str) -> list[str]:
        return self._reader.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return [(name, self._driven(znode)) for name, znode in self._reader.children_data(path)]

    @overload
    def _driven(self, znode: Znode) -> Znode: ...

    @overload
    def _driven(self, znode: None) -> None: ...

    def _driven(self, znode: Znode | None) -> Znode | None:
        if znode is None:
            return None
        times = {"ctime_ms": self._time.of(znode.stat.ctime_ms), "mtime_ms": self._time.of(znode.stat.mtime_ms)}
        return znode._replace(stat=znode.stat._replace(**times))


class DrivenStore(WrappedStore):
    """A server's store, by the test's clock.

    It joins no steps, as tests expect that look at each of them; those that are joined have tests of their own.
    """

    joins_steps = False

    def __init__(self, store: ZnodeStore, time: ServerTime) -> None:
        super().__init__(store)
        self._time = time

    @property
    def timing(self) -> Timing:
        return Timing(self._time.now_ms, self._time, uniform_jitter)

    def reading(self, reader: ZnodeReader) -> ZnodeReader:
        return DrivenReader(reader, self._time)

    def watch(self) -> AbstractContextManager[Watch]:
        """Looks, by the test's clock: what the server's client waits for, it waits for by the machine's."""
        return Transacting.watch(self)


class ServerLogWorld(LogWorld):
    """The znodes of one log on a server, its files on the disk.

    Args:
        folder: of the files.
        url: of the znodes; nobody else's.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        super().__init__(folder, url, time=ServerTime())

    def store(self, url: str | None = None) -> ZnodeStore:
        """The znodes, as a process of its own sees them; through another address of the server if one is given."""
        assert isinstance(self.time, ServerTime)
        place = metadata.place_of(str(self.folder), url or self.url)
        store = DrivenStore(place.open(create=True), self.time)
        self._opened.append(store)
        return store


def server_log_world(folder: Path, url: str) -> AbstractContextManager[ServerLogWorld]:
    return checked(ServerLogWorld(folder, url))
