"""The store on ZooKeeper: the contract of every store, each test below a chroot of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.testing.znode_store_contract import ManyProcessesContract, StoreWorld, ZnodeStoreContract
from tests.support.servers.zookeeper import ZookeeperServer
from tests.unit.znodes.worlds import ZookeeperWorld

pytestmark = pytest.mark.servers


class TestZookeeperStore(ZnodeStoreContract, ManyProcessesContract):
    histories = 5

    @pytest.fixture
    def new_world(self, tmp_path: Path, zookeeper: ZookeeperServer) -> Iterator[Callable[[], StoreWorld]]:
        worlds: list[StoreWorld] = []

        def begin() -> StoreWorld:
            worlds.append(ZookeeperWorld(tmp_path, zookeeper.url()))
            return worlds[-1]

        yield begin
        for world in worlds:
            world.close()
