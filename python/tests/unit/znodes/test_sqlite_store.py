"""The store in SQLite: the contract of every store."""

from __future__ import annotations

from oncelog.testing.znode_store_contract import AtomicReadsContract, ClientTimeContract, ManyProcessesContract
from tests.unit.znodes.worlds import SqliteWorld


class TestSqliteStore(ClientTimeContract, AtomicReadsContract, ManyProcessesContract):
    world_class = SqliteWorld
