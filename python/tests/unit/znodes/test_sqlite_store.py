"""The store in SQLite: the contract of every store."""

from __future__ import annotations

from oncelog.ports import Create, ZnodeStore
from oncelog.testing.znode_store_contract import AtomicReadsContract, ClientTimeContract, ManyProcessesContract
from oncelog.znodes.sqlite.store import KEYS_PER_SELECT
from tests.unit.znodes.worlds import SqliteWorld


class TestSqliteStore(ClientTimeContract, AtomicReadsContract, ManyProcessesContract):
    world_class = SqliteWorld

    def test_more_znodes_than_one_statement_reads_are_found_in_the_order_of_their_paths(
        self, store: ZnodeStore
    ) -> None:
        store.multi([Create("/a", b"first"), Create("/z", b"last")])
        absent = [f"/none-{number}" for number in range(2 * KEYS_PER_SELECT)]

        found = store.get_many(["/z", *absent, "/a", "/z"])

        assert [znode and znode.data for znode in found] == [b"last", *[None] * len(absent), b"first", b"last"]
