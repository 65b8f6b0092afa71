"""The store in memory, and the same with reads as ZooKeeper's: the contract of every store."""

from __future__ import annotations

import pickle

from oncelog.testing.znode_store_contract import AtomicReadsContract, ClientTimeContract
from oncelog.znodes.errors import MultiFailedError, Refusal
from tests.unit.znodes.worlds import LiveReadsWorld, MemoryWorld


class TestMemoryStore(ClientTimeContract, AtomicReadsContract):
    world_class = MemoryWorld


class TestLiveReads(ClientTimeContract):
    world_class = LiveReadsWorld


def test_a_refusal_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(MultiFailedError.at(3, "/a", Refusal.BAD_VERSION)))

    assert (error.index, error.path, error.refusal) == (3, "/a", Refusal.BAD_VERSION)
