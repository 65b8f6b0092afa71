"""The store on ZooKeeper: the contract of every store, each test below a chroot of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.testing.znode_store_contract import ManyProcessesContract, StoreWorld, ZnodeStoreContract
from tests.support.servers.zookeeper import ZookeeperServer
from tests.unit.znodes.worlds import ZookeeperWorld

pytestmark = pytest.mark.slow


class TestZookeeperStore(ZnodeStoreContract, ManyProcessesContract):
    histories = 5

    @pytest.fixture
    def make_world(self, zookeeper: ZookeeperServer) -> Callable[[Path], StoreWorld]:
        return lambda folder: ZookeeperWorld(folder, zookeeper.url())
