"""Logs on a real ZooKeeper, by a clock that the test drives, and stores that fail on the wire.

The server stamps znodes by the machine's clock. `ServerTime` remembers when the test let time pass, and reads such a
stamp as the test's time, so that tests of time-outs run on a server as they are.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from oncelog.ports import Op, Znode, ZnodeStore
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.transact import IsFresh, always_fresh
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from tests.support.log.faulty import FaultyStore
from tests.support.log.logs import DrivenTime, LogWorld, checked
from tests.support.servers.proxy import Loss, Proxy

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

    def driven(self, znode: Znode) -> Znode:
        """A znode of the server, with the test's times."""
        times = {"ctime_ms": self.of(znode.stat.ctime_ms), "mtime_ms": self.of(znode.stat.mtime_ms)}
        return znode._replace(stat=znode.stat._replace(**times))


class DrivenZookeeperStore(ZookeeperZnodeStore):
    """The store, with the times of znodes read by the test's clock."""

    def __init__(self, url: str, time: ServerTime) -> None:
        super().__init__(url, now_ms=time.now_ms, clock=time)
        self._time = time

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [znode and self._time.driven(znode) for znode in super().get_many(paths)]


class ZookeeperLogWorld(LogWorld):
    """The znodes of one log below a chroot, its files on the disk.

    Args:
        folder: of the files.
        url: of the znodes; nobody else's.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        super().__init__(folder, "zookeeper", time=ServerTime())

    def store(self, url: str | None = None) -> ZnodeStore:
        """The znodes, as a process of its own sees them; through another address of the server if one is given."""
        assert isinstance(self.time, ServerTime)
        store = DrivenZookeeperStore(url or self.url, self.time)
        self._opened.append(store)
        return store


def zookeeper_log_world(folder: Path, url: str) -> AbstractContextManager[ZookeeperLogWorld]:
    return checked(ZookeeperLogWorld(folder, url))


class WireStore(FaultyStore):
    """Fails as `FaultyStore` does, but on the wire: a proxy strikes a chosen multi.

    Args:
        store: over connections through the proxy.
        proxy: in front of the server.
        loss: what happens; a late request is delivered right before the next multi.
        at: at which multi, counted from 0.
    """

    def __init__(self, store: ZnodeStore, proxy: Proxy, loss: Loss, at: int) -> None:
        super().__init__(store)
        self._proxy = proxy
        self._loss = loss
        self._left = at

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        store = self._alive()
        self._proxy.deliver_late()
        is_struck = self._left == 0
        self._left -= 1
        if is_struck:
            self.has_struck = True
            self._proxy.lose_next(self._loss)
        try:
            store.multi(ops, is_fresh=is_fresh)
        finally:
            assert self._proxy.losses or not is_struck, "the proxy struck no multi"
