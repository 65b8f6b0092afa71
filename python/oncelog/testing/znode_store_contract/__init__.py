"""The tests that every znode store must pass.

The author of a store runs them with a few lines (docs/guides/extending-store.md):

    class BoardWorld(StoreWorld):
        def open(self, timing: Timing) -> ZnodeStore:
            return BoardStore(self.folder / "board", timing)

    class TestBoardStore(ClientTimeContract, AtomicReadsContract, ManyProcessesContract):
        world_class = BoardWorld

`ZnodeStoreContract` is for every store. The others add tests for some stores. `ClientTimeContract`, which includes
`ZnodeStoreContract`, is for stores without servers, whose clients provide the time and hold the lock.
`AtomicReadsContract` is for stores whose snapshots show one moment. `ManyProcessesContract` is for stores that several
processes can use. oncelog's own stores are tested by exactly these classes.

Needs pytest and hypothesis: the extra ``oncelog[testing]``.
"""

from __future__ import annotations

from oncelog.extras import extras

with extras("testing", part="oncelog.testing.znode_store_contract"):
    import pytest

# Must come before the imports, so that a failed assert shows both of its sides.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("concurrency", "conflicts", "histories", "multis", "steps", "watches", "worlds")
    )
)

from oncelog.testing.znode_store_contract.concurrency import (  # noqa: E402
    AtomicReadsContract,
    ConcurrencyContract,
    ManyProcessesContract,
)
from oncelog.testing.znode_store_contract.conflicts import ConflictContract  # noqa: E402
from oncelog.testing.znode_store_contract.histories import HistoryContract  # noqa: E402
from oncelog.testing.znode_store_contract.multis import ClientTimeMultiContract, MultiContract  # noqa: E402
from oncelog.testing.znode_store_contract.steps import StepContract  # noqa: E402
from oncelog.testing.znode_store_contract.watches import WatchContract  # noqa: E402
from oncelog.testing.znode_store_contract.worlds import FakeTime, StoreWorld  # noqa: E402

__all__ = [
    "AtomicReadsContract",
    "ClientTimeContract",
    "FakeTime",
    "ManyProcessesContract",
    "StoreWorld",
    "ZnodeStoreContract",
]


class ZnodeStoreContract(
    MultiContract, StepContract, ConflictContract, HistoryContract, ConcurrencyContract, WatchContract
):
    """What every store must do."""


class ClientTimeContract(ZnodeStoreContract, ClientTimeMultiContract):
    """What every store without servers must do, whose clients provide the time and hold the lock."""

    is_of_the_clients_time = True
