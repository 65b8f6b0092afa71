"""Logs on a real ZooKeeper, by a clock that the test drives, and stores that fail on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from oncelog.ports import Op, Znode, ZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from tests.support.log.faulty import FaultyStore
from tests.support.log.logs import checked
from tests.support.log.server_logs import ServerLogWorld, ServerTime
from tests.support.servers.proxy import Loss, Proxy


class DrivenZookeeperStore(ZookeeperZnodeStore):
    """The store, with the times of znodes read by the test's clock."""

    def __init__(self, url: str, time: ServerTime) -> None:
        super().__init__(url, now_ms=time.now_ms, clock=time)
        self._time = time

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [znode and self._time.driven(znode) for znode in super().get_many(paths)]


class ZookeeperLogWorld(ServerLogWorld):
    """The znodes below a chroot."""

    kind = "zookeeper"

    def opened_by(self, time: ServerTime, url: str) -> ZnodeStore:
        return DrivenZookeeperStore(url, time)


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
