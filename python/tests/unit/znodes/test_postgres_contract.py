"""The store on PostgreSQL: the contract of every store, each test in a schema of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.testing.znode_store_contract.multis import ClientTimeMultiContract
from tests.support.servers.postgres import PostgresServer
from tests.unit.znodes.worlds import PostgresWorld

pytestmark = [pytest.mark.slow, pytest.mark.walk("znodes on PostgreSQL")]


class TestPostgresStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    histories = 5

    test_freshness_is_asked_where_no_other_write_can_come_before = (
        ClientTimeMultiContract.test_freshness_is_asked_where_no_other_write_can_come_before
    )

    @pytest.fixture
    def make_world(self, postgres: PostgresServer) -> Callable[[Path], StoreWorld]:
        return lambda folder: PostgresWorld(folder, postgres.url())
