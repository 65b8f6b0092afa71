"""Time-outs: a silent transaction is aborted and its producer fenced, and a commit that races it wins or loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import limits
from oncelog.coordinator import sweeper
from oncelog.errors import FatalError, InvalidProducerIdMappingError, InvalidTxnStateError, ProducerFencedError
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata
from tests.support.log.faulty import InterruptedStore
from tests.support.log.logs import (
    CAUGHT_UP_MS,
    TOPIC,
    LogWorld,
    log_world,
    lso,
    partition,
    send,
    started,
    tp,
    uncommitted,
    values,
    write_aborted,
    write_committed,
    write_open,
)

TIMEOUT_MS = 5_000


def epoch(log: Log, transactional_id: str = "copier") -> int:
    return log.services.coordinator.describe(transactional_id).epoch


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_time_out_aborts_fences_and_answers_the_late_commit_with_a_fatal_error(
    world: LogWorld, *, is_settled: bool
) -> None:
    """conformance: 10."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"late")
    producer.send_offsets_to_transaction({tp(): 5}, "g")
    world.time.pass_ms(TIMEOUT_MS + 1)
    (overdue,) = world.sweep()
    if is_settled:
        world.settle()

    assert (overdue.age_ms, overdue.timeout_ms) == (TIMEOUT_MS + 1, TIMEOUT_MS)
    assert epoch(world.log) == 1
    with pytest.raises(ProducerFencedError if is_settled else InvalidTxnStateError):
        producer.commit_transaction()
    producer.close()
    assert values(world.log) == []
    with world.log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()]) == {}
    write_committed(started(world.log), b"next")
    assert values(world.log) == [b"next"]


def test_a_late_write_into_a_timed_out_transaction_is_fenced(world: LogWorld) -> None:
    """conformance: 10, 21."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"a")
    world.time.pass_ms(TIMEOUT_MS + 1)
    world.sweep()
    with pytest.raises(ProducerFencedError):
        send(producer, b"late")

    assert uncommitted(world.log) == [b"a"]


def test_a_late_abort_of_a_timed_out_transaction_is_fine_and_its_producer_goes_on(world: LogWorld) -> None:
    """conformance: 10."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"late")
    world.time.pass_ms(TIMEOUT_MS + 1)
    world.sweep()
    producer.abort_transaction()
    write_committed(producer, b"next")

    assert values(world.log) == [b"next"]


def test_nothing_times_out_before_its_time(world: LogWorld) -> None:
    """conformance: 10."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"a")
    world.time.pass_ms(TIMEOUT_MS)
    assert world.sweep() == []
    producer.commit_transaction()

    assert values(world.log) == [b"a"]


def test_time_counts_from_the_begin_of_the_transaction_and_not_of_the_producer(world: LogWorld) -> None:
    """conformance: 10."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    world.time.pass_ms(10 * TIMEOUT_MS)
    write_open(producer, b"a")
    assert world.sweep() == []
    producer.commit_transaction()


def test_a_reader_that_is_held_back_times_out_what_holds_it(world: LogWorld) -> None:
    """conformance: 10, 43."""
    hanging = started(world.log, "hanging", transaction_timeout_ms=TIMEOUT_MS)
    write_open(hanging, b"hanging")
    write_committed(started(world.log), b"held back")
    with world.log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp()])
        assert consumer.poll() == []
        world.time.pass_ms(TIMEOUT_MS + CAUGHT_UP_MS)
        consumer.poll()

        assert [record.value for record in consumer.poll()] == [b"held back"]
    with pytest.raises(FatalError):
        hanging.commit_transaction()


def test_a_time_out_that_races_a_commit_at_any_multi_wins_or_loses_and_both_are_told(tmp_path: Path) -> None:
    """conformance: 11."""
    outcomes = []
    for at in range(10):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            swept: list[int] = []
            store = InterruptedStore(world.store(), lambda world=world, swept=swept: swept.append(len(world.sweep())))  # type: ignore[misc]
            producer = started(world.open(store), transaction_timeout_ms=TIMEOUT_MS)
            write_open(producer, b"a")
            world.time.pass_ms(TIMEOUT_MS + 1)
            store.interrupt(at)
            try:
                producer.commit_transaction()
                is_committed = True
            except FatalError:
                is_committed = False
            if not store.has_struck:
                break
            assert swept == [0 if is_committed else 1]
            assert values(world.log) == ([b"a"] if is_committed else [])
            outcomes.append(is_committed)

    assert False in outcomes


def test_a_commit_that_races_a_time_out_at_any_multi_wins_or_loses_and_both_are_told(tmp_path: Path) -> None:
    """conformance: 11."""
    outcomes = []
    for at in range(10):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
            write_open(producer, b"a")
            world.time.pass_ms(TIMEOUT_MS + 1)
            store = InterruptedStore(world.store(), producer.commit_transaction)
            services = world.open(store).services
            store.interrupt(at)
            swept = sweeper.sweep(services.store, services.coordinator, [partition(world.log)])
            if not store.has_struck:
                break
            assert swept == []
            assert values(world.log) == [b"a"]
            outcomes.append(at)

    assert outcomes


def test_a_decided_transaction_never_times_out(world: LogWorld) -> None:
    """conformance: 11."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_committed(producer, b"a")
    world.time.pass_ms(100 * TIMEOUT_MS)

    assert world.sweep() == []
    assert values(world.log) == [b"a"]


def test_a_prepared_transaction_never_times_out(world: LogWorld) -> None:
    """conformance: 12, 56."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"a")
    producer.prepare_transaction()
    world.time.pass_ms(1000 * limits.MAX_TRANSACTION_TIMEOUT_MS)

    assert world.sweep() == []
    producer.commit_transaction()
    assert values(world.log) == [b"a"]


def test_a_clock_that_is_set_back_neither_ends_nor_prolongs_a_transaction(world: LogWorld) -> None:
    """conformance: 10."""
    producer = started(world.log, transaction_timeout_ms=TIMEOUT_MS)
    write_open(producer, b"a")
    world.time.wall_ms -= 3_600_000
    world.time.pass_ms(1000)
    assert world.sweep() == []
    world.time.wall_ms += 3_600_000
    world.time.pass_ms(TIMEOUT_MS)
    assert len(world.sweep()) == 1

    assert values(world.log) == []


def test_a_hanging_transaction_is_found_and_aborted_by_an_operator(world: LogWorld) -> None:
    """conformance: 43."""
    hanging = started(world.log, "hanging")
    write_open(hanging, b"hanging")
    write_committed(started(world.log), b"held back")
    world.time.pass_ms(limits.DEFAULT_TRANSACTION_TIMEOUT_MS + 1)
    assert values(world.log) == []
    (found,) = world.log.admin.find_hanging()
    assert found.transactional_id == "hanging"
    world.log.admin.abort_transaction("hanging")

    assert values(world.log) == [b"held back"]
    with pytest.raises(FatalError):
        hanging.commit_transaction()
    assert values(world.log) == [b"held back"]
    assert lso(world.log) > 1


# Expiry of ids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [None, write_committed, write_aborted])
def test_an_idle_id_expires_and_starts_cleanly_again(world: LogWorld, write: object) -> None:
    """conformance: 13."""
    producer = started(world.log)
    if callable(write):
        write(producer, b"a")
    world.settle()
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)
    assert world.log.admin.expire_transactional_ids() == ["copier"]
    producer.begin_transaction()
    with pytest.raises(InvalidProducerIdMappingError):
        send(producer, b"late")

    successor = started(world.log)
    assert epoch(world.log) == 0
    write_committed(successor, b"fresh")
    assert values(world.log)[-1:] == [b"fresh"]


def test_an_id_with_an_unfinished_transaction_does_not_expire(world: LogWorld) -> None:
    """conformance: 13."""
    write_open(started(world.log, "open"), b"a")
    prepared = started(world.log, "prepared")
    write_open(prepared, b"b", number=1)
    prepared.prepare_transaction()
    write_committed(started(world.log, "unsettled"), b"c")
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)

    assert world.log.admin.expire_transactional_ids() == []
    assert world.log.services.coordinator.describe("unsettled").state is TxnState.PREPARE_COMMIT


def test_an_id_whose_last_transaction_staged_offsets_alone_expires_too(world: LogWorld) -> None:
    """conformance: 13, 48."""
    producer = started(world.log)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({tp(): 1}, "g")
    producer.commit_transaction()
    world.time.pass_ms(limits.TRANSACTIONAL_ID_EXPIRATION_MS + 1)

    assert world.log.admin.expire_transactional_ids() == ["copier"]
    with world.log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()])[tp()] == OffsetAndMetadata(1)
