"""The simulation's way to the znodes, in both natures, is a store like any other: it passes their contract."""

from __future__ import annotations

from oncelog.testing.znode_store_contract import AtomicReadsContract, ZnodeStoreContract
from tests.unit.znodes.worlds import SimulatedLiveReadsWorld, SimulatedWorld


class TestSimulatedStore(ZnodeStoreContract, AtomicReadsContract):
    world_class = SimulatedWorld


class TestSimulatedLiveReads(ZnodeStoreContract):
    world_class = SimulatedLiveReadsWorld
