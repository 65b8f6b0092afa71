"""Producer ids come in blocks, and each once."""

from __future__ import annotations

import os
import signal

import pytest

from oncelog import limits
from oncelog.coordinator.producer_ids import MAX_PRODUCER_ID, ProducerIds
from oncelog.errors import CorruptDataError, FatalError, StoreUnavailableError
from oncelog.znodes import paths
from oncelog.znodes.memory import MemoryZnodeStore
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import LogWorld


def test_a_block_is_used_up_before_the_next_is_taken(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """conformance: 18."""
    monkeypatch.setattr(limits, "PRODUCER_ID_BLOCK", 3)
    first, second = ProducerIds(world.store()), ProducerIds(world.store())

    assert [first.take(), second.take(), first.take(), first.take(), first.take()] == [0, 3, 1, 2, 6]


def test_a_restart_wastes_at_most_the_rest_of_its_block(world: LogWorld) -> None:
    """conformance: 18."""
    assert ProducerIds(world.store()).take() == 0
    assert ProducerIds(world.store()).take() == limits.PRODUCER_ID_BLOCK


def test_a_forked_child_never_gives_out_its_parents_ids(world: LogWorld) -> None:
    """conformance: 18."""
    ids = ProducerIds(world.store())
    assert ids.take() == 0
    reading, writing = os.pipe()
    with ids._lock:  # as another thread may hold it at the fork
        child = os.fork()
        if child == 0:
            signal.alarm(5)  # instead of waiting for ever
            try:
                os.write(writing, b"%d" % ids.take())
            finally:
                os._exit(0)
    os.close(writing)
    found = os.read(reading, 100)
    os.close(reading)
    os.waitpid(child, 0)

    assert int(found) == limits.PRODUCER_ID_BLOCK
    assert ids.take() == 1


def test_a_store_that_is_away_gives_no_id_and_wastes_none(world: LogWorld) -> None:
    """conformance: 16."""
    store = FaultyStore(world.store())
    ids = ProducerIds(store)
    store.fail_next(Fault.UNAVAILABLE)
    with pytest.raises(StoreUnavailableError):
        ids.take()

    assert ids.take() == 0


def test_the_last_block_is_given_out_and_then_no_more(world: LogWorld) -> None:
    """conformance: 18."""
    store = world.log.services.store
    start = MAX_PRODUCER_ID - limits.PRODUCER_ID_BLOCK
    store.transact(lambda view: view.set(paths.PRODUCER_IDS, paths.encode({"next": start})))

    assert ProducerIds(store).take() == start
    with pytest.raises(FatalError, match=f"next_producer_id={MAX_PRODUCER_ID}"):
        ProducerIds(store).take()


def test_a_store_without_a_log_is_named() -> None:
    with pytest.raises(CorruptDataError, match="/producer_ids"):
        ProducerIds(MemoryZnodeStore()).take()
