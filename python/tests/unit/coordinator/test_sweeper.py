"""Sweeping: what is overdue, whose time counts, and what a sweep leaves alone."""

from __future__ import annotations

import pytest

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.coordinator import owners, sweeper, transactional_ids
from oncelog.coordinator.sweeper import Overdue
from oncelog.protocol.txn_state import TxnState
from oncelog.types import MAX_PRODUCER_EPOCH
from oncelog.znodes import paths
from oncelog.znodes.clock import store_now_ms
from tests.support.log.faulty import InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    partitions,
    set_epoch,
    started,
    tp,
    values,
    write_committed,
    write_open,
)
from tests.support.log.rounds import begin, written


@pytest.mark.parametrize("world", ["memory", "sqlite"], indirect=True)
def test_the_stores_time_is_that_of_its_own_writes_and_never_goes_back(world: LogWorld) -> None:
    """A ZooKeeper takes the time of its leader. If the next leader's clock is behind, time-outs come later."""
    store = world.log.services.store
    first = store_now_ms(store)
    world.time.wall_ms -= 10_000
    second = store_now_ms(store)
    world.time.wall_ms += 20_000

    assert second == first
    assert store_now_ms(store) == first + 10_000


def test_a_sweep_tells_what_it_aborted(world: LogWorld) -> None:
    """conformance: 10."""
    late = started(world.log, "late", transaction_timeout_ms=1000)
    write_open(late, b"a")
    write_open(started(world.log, "patient"), b"b", number=1)
    world.time.pass_ms(1500)

    assert world.sweep() == [Overdue(paths.transaction_owner("late", 0, 0), 1500, 1000)]
    assert world.sweep() == []


def test_without_candidates_not_even_the_clock_is_touched(world: LogWorld) -> None:
    services = world.log.services
    before = services.store.get(paths.CLOCK)

    assert sweeper.sweep_owners(services.store, services.coordinator, []) == []
    assert services.store.get(paths.CLOCK) == before


def test_an_owner_that_is_gone_is_passed_over(world: LogWorld) -> None:
    services = world.log.services
    gone = [paths.transaction_owner("nobody", 1, 2), EMBEDDED.round_path("nobody", 3)]

    assert sweeper.sweep_owners(services.store, services.coordinator, gone) == []


def test_a_transaction_that_began_since_it_was_seen_is_not_aborted_for_the_old_one(world: LogWorld) -> None:
    """conformance: 11, 21."""
    services = world.log.services
    producer = started(world.log, transaction_timeout_ms=1000)
    write_open(producer, b"old")
    (old,) = owners.open_owners(services.store)
    producer.commit_transaction()
    world.time.pass_ms(1500)
    write_open(producer, b"new")

    assert not services.coordinator.time_out(old)
    producer.commit_transaction()
    assert values(world.log) == [b"old", b"new"]


def test_a_time_out_at_the_last_epoch_takes_a_fresh_producer_id(world: LogWorld) -> None:
    """conformance: 7, 10."""
    started(world.log)
    set_epoch(world.log, "copier", MAX_PRODUCER_EPOCH - 2)
    producer = started(world.log, transaction_timeout_ms=1000)
    write_open(producer, b"a")
    world.time.pass_ms(1500)
    assert len(world.sweep()) == 1

    assert world.log.services.coordinator.describe("copier").epoch == 0
    write_committed(started(world.log), b"b")
    assert values(world.log) == [b"b"]


def test_a_round_that_is_renewed_while_it_is_swept_goes_on(world: LogWorld) -> None:
    """conformance: 56."""
    round_ = begin(world.log, 0, timeout_ms=1000)
    round_.write(written(world.log, {0: [b"a"]}))
    world.time.pass_ms(1500)
    store = InterruptedStore(world.store(), round_.renew)
    services = world.open(store).services
    store.interrupt(1)

    assert sweeper.sweep(services.store, services.coordinator, partitions(world.log)) == []
    assert store.has_struck
    round_.decide()
    assert values(world.log) == [b"a"]


def test_all_open_owners_are_found_for_tools(world: LogWorld) -> None:
    """conformance: 43."""
    write_open(started(world.log, "with/odd name"), b"a")
    offsets_alone = started(world.log, "offsets alone")
    offsets_alone.begin_transaction()
    offsets_alone.send_offsets_to_transaction({tp(): 1}, "g")
    round_ = begin(world.log, 0)
    write_committed(started(world.log, "done"), b"b", number=1)
    found = owners.open_owners(world.log.services.store)

    assert {paths.transactional_id_of(path) for path in found if not paths.is_round(path)} == {
        "with/odd name",
        "offsets alone",
    }
    assert round_.path in found
    assert len(found) == 3


def test_tombstones_of_expired_ids_go_after_a_day(world: LogWorld) -> None:
    """conformance: 13."""
    store = world.log.services.store
    started(world.log)
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)
    assert sweeper.expire_transactional_ids(store) == ["copier"]
    stored = transactional_ids.load(store, "copier")
    assert stored is not None
    assert stored.state is TxnState.DEAD
    world.time.pass_ms(limits.TOMBSTONE_MS)
    assert sweeper.expire_transactional_ids(store) == []
    assert transactional_ids.load(store, "copier") is not None
    world.time.pass_ms(1)
    sweeper.expire_transactional_ids(store)

    assert transactional_ids.load(store, "copier") is None
    assert started(world.log) is not None


def test_an_id_that_is_used_while_it_is_swept_does_not_expire(world: LogWorld) -> None:
    """conformance: 13."""
    producer = started(world.log)
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)
    store = InterruptedStore(world.store(), lambda: write_open(producer, b"a"))
    store.interrupt(1)

    assert sweeper.expire_transactional_ids(store) == []
    assert store.has_struck
    producer.commit_transaction()
    assert values(world.log) == [b"a"]


def test_an_id_that_ends_a_transaction_while_it_is_swept_does_not_expire(world: LogWorld) -> None:
    """Nothing of it is open, and yet its time begins anew. conformance: 13."""
    producer = started(world.log)
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)

    def commit_whole() -> None:
        with producer.transaction():
            producer.send(TOPIC, b"a", partition=0)

    store = InterruptedStore(world.store(), commit_whole)
    store.interrupt(1)

    assert sweeper.expire_transactional_ids(store) == []
    assert store.has_struck
    write_committed(producer, b"b")
    assert values(world.log) == [b"a", b"b"]
