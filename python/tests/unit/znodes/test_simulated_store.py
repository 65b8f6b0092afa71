"""The simulation's way to the znodes, in each nature, is a store like any other: it passes their contract."""

from __future__ import annotations

import pytest

from oncelog.testing.znode_store_contract import AtomicReadsContract, ZnodeStoreContract
from tests.unit.znodes.worlds import SimulatedLiveReadsWorld, SimulatedLogWorld, SimulatedWorld


@pytest.mark.slow
class TestSimulatedStore(ZnodeStoreContract, AtomicReadsContract):
    world_class = SimulatedWorld


@pytest.mark.slow
class TestSimulatedLog(ZnodeStoreContract, AtomicReadsContract):
    world_class = SimulatedLogWorld


@pytest.mark.slow
class TestSimulatedLiveReads(ZnodeStoreContract):
    world_class = SimulatedLiveReadsWorld
