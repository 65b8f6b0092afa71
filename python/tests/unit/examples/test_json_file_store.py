"""The store of the example passes the contract of every store."""

from __future__ import annotations

from json_file_store import JsonFileStore
from oncelog.ports import Timing, ZnodeStore
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ClientTimeContract,
    ManyProcessesContract,
    StoreWorld,
)


class JsonFileWorld(StoreWorld):
    def open(self, timing: Timing) -> ZnodeStore:
        return JsonFileStore(self.folder / "znodes.json", timing)


class TestJsonFileStore(ClientTimeContract, AtomicReadsContract, ManyProcessesContract):
    world_class = JsonFileWorld
