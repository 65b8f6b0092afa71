"""Stores that fail on the wire between them and a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.ports import Op, ZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from tests.support.log.faulty import FaultyStore
from tests.support.servers.proxy import Loss, Proxy


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
        store = self.inner()
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
