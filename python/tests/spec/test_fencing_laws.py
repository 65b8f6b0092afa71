"""Of a transactional id one producer can write: identities, fencing on every call, epochs to their end and beyond."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.clients.producer import Producer
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.transactions import own_transaction
from oncelog.errors import (
    FatalError,
    IllegalStateTransitionError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from oncelog.log import codec, generations, partition_log
from oncelog.log.partition_log import Append
from oncelog.log.segment import SegmentWriter
from oncelog.runtime import Log
from oncelog.types import MAX_PRODUCER_EPOCH, Block, OffsetAndMetadata, ProducerIdAndEpoch
from oncelog.znodes import paths
from tests.support.log.faulty import Fault, FaultyStore, InterruptedStore, OvertakenStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    columns,
    log_world,
    partition,
    send,
    set_epoch,
    started,
    state,
    tp,
    uncommitted,
    values,
    write_aborted,
    write_committed,
    write_open,
)

LAST_EPOCH = MAX_PRODUCER_EPOCH - 1

Call = Callable[[Producer], object]


def flushed(producer: Producer) -> None:
    producer.send(TOPIC, b"zombie", partition=1)
    producer.flush()


WRITES: dict[str, Call] = {
    "send": flushed,
    "offsets": lambda producer: producer.send_offsets_to_transaction({tp(): 9}, "g"),
}
ENDS: dict[str, Call] = {
    "commit": Producer.commit_transaction,
    "abort": Producer.abort_transaction,
    "prepare": Producer.prepare_transaction,
}


def identity(log: Log, transactional_id: str = "copier") -> ProducerIdAndEpoch:
    return log.services.coordinator.describe(transactional_id).producer


def blocks(log: Log, *sent: bytes) -> tuple[Block, ...]:
    """Values in a data file that nobody has named yet."""
    files, store = log.services.files, log.services.store
    writer = SegmentWriter(files, generations.prefix(generations.DATA, generations.current(store)))
    found = writer.append(codec.normalise(columns(*sent), default_timestamp_ms=0))
    writer.finish()
    return tuple(found)


def request(log: Log, producer: ProducerIdAndEpoch, *sent: bytes, base_sequence: int = 0) -> Append:
    """An append as it goes over the wire, within the transaction that `producer` names."""
    owner = own_transaction("copier", producer)
    return Append(partition(log), producer, base_sequence, owner, blocks(log, *sent))


# Incarnations ---------------------------------------------------------------------------------------------------------


def test_each_init_is_one_epoch_higher(log: Log) -> None:
    """conformance: 1."""
    epochs = []
    for _ in range(3):
        started(log)
        epochs.append(identity(log).epoch)

    assert epochs == [0, 1, 2]


def test_parallel_inits_get_epochs_of_their_own_and_one_survives(world: LogWorld) -> None:
    """conformance: 1."""
    logs = [world.open() for _ in range(8)]
    producers: list[Producer] = []

    def init(log: Log) -> None:
        producers.append(started(log))

    threads = [threading.Thread(target=init, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert identity(world.log).epoch == 7
    survivors = 0
    for producer in producers:
        producer.begin_transaction()
        try:
            send(producer, b"a")
            producer.commit_transaction()
            survivors += 1
        except ProducerFencedError:
            continue
    assert survivors == 1
    assert values(world.log) == [b"a"]


def test_init_with_an_expected_identity_goes_on_from_the_current_one_and_from_no_other(log: Log) -> None:
    """conformance: 2."""
    coordinator = log.services.coordinator
    first = coordinator.init_producer_id("copier").producer
    second = coordinator.init_producer_id("copier", expected=first).producer

    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    assert coordinator.init_producer_id("copier", expected=first).producer == second
    third = coordinator.init_producer_id("copier", expected=second).producer
    with pytest.raises(ProducerFencedError):
        coordinator.init_producer_id("copier", expected=first)
    assert identity(log) == third


# Fencing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [*WRITES, *ENDS])
def test_init_over_an_open_transaction_aborts_it_and_fences_its_producer_on_every_call(log: Log, call: str) -> None:
    """conformance: 3, 47."""
    zombie = started(log)
    write_open(zombie, b"aborted")
    zombie.send_offsets_to_transaction({tp(): 5}, "g")
    successor = started(log)
    with pytest.raises(ProducerFencedError):
        ({**WRITES, **ENDS})[call](zombie)

    with pytest.raises(IllegalStateTransitionError, match="legal='close'"):
        zombie.begin_transaction()
    zombie.close()
    write_committed(successor, b"committed")
    assert values(log) == [b"committed"]
    assert uncommitted(log) == [b"aborted", b"committed"]
    with log.consumer(group_id="g") as consumer:
        assert consumer.committed([tp()]) == {}


@pytest.mark.parametrize("call", WRITES)
def test_a_producer_that_slept_between_transactions_is_fenced_at_its_next_write(log: Log, call: str) -> None:
    """conformance: 3, 47."""
    zombie = started(log)
    write_committed(zombie, b"before")
    started(log)
    zombie.begin_transaction()
    with pytest.raises(ProducerFencedError):
        WRITES[call](zombie)

    assert uncommitted(log) == [b"before"]


def test_an_id_is_usable_again_after_its_zombie_was_fenced(log: Log) -> None:
    """conformance: 47."""
    for _ in range(3):
        producer = started(log)
        write_open(producer, b"given up")
    producer = started(log)
    producer.begin_transaction()
    send(producer, b"done")
    producer.send_offsets_to_transaction({tp(): 1}, "g")
    producer.commit_transaction()

    assert values(log) == [b"done"]


@pytest.mark.parametrize("call", [*WRITES, *ENDS])
def test_a_successor_that_starts_between_the_reads_and_the_write_of_a_call_wins_or_comes_after_it(
    tmp_path: Path, call: str
) -> None:
    """conformance: 3, 17."""
    for at in range(10):
        with log_world(tmp_path / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            store = InterruptedStore(world.store(), lambda log=world.log: started(log))  # type: ignore[misc]
            old = started(world.open(store))
            write_open(old, b"a")
            store.interrupt(at)
            outcome = _outcome(lambda old=old: ({**WRITES, **ENDS})[call](old))  # type: ignore[misc]
            if not store.has_struck:
                assert outcome is None
                assert at > 0
                break
            assert outcome in (None, ProducerFencedError)
            is_committed = call == "commit" and outcome is None
            assert values(world.log) == ([b"a"] if is_committed else [])
    else:
        pytest.fail("the call never ended")


def _outcome(call: Callable[[], object]) -> type[FatalError] | None:
    try:
        call()
    except FatalError as error:
        return type(error)
    return None


@pytest.mark.parametrize("is_settled", [False, True])
def test_init_over_a_decided_transaction_leaves_its_outcome_as_it_is(world: LogWorld, *, is_settled: bool) -> None:
    """conformance: 4, 14."""
    for write, value in ((write_committed, b"a"), (write_aborted, b"b")):
        write(started(world.log), value)
        if is_settled:
            world.settle()
        started(world.log)

        assert values(world.log) == [b"a"]


# Delayed requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
def test_delayed_requests_of_a_transaction_have_no_effect_on_the_next_one(log: Log, end: Call) -> None:
    """conformance: 21, 31."""
    coordinator = log.services.coordinator
    producer = started(log)
    delayed = identity(log)
    write_open(producer, b"first")
    late_append = request(log, delayed, b"late", base_sequence=1)
    end(producer)
    write_open(producer, b"second")

    for attempt in (
        lambda: coordinator.append("copier", delayed, [late_append]),
        lambda: coordinator.append("copier", delayed, [request(log, delayed, b"first")]),
        lambda: coordinator.send_offsets("copier", delayed, "g", {partition(log): OffsetAndMetadata(1)}),
        lambda: coordinator.prepare("copier", delayed),
        lambda: coordinator.end_txn("copier", delayed, commit=True),
        lambda: coordinator.end_txn("copier", delayed, commit=False),
    ):
        with pytest.raises(ProducerFencedError):
            attempt()
    producer.commit_transaction()

    expected = [b"first", b"second"] if end is Producer.commit_transaction else [b"second"]
    assert values(log) == expected
    assert uncommitted(log) == [b"first", b"second"]


def test_a_delayed_append_cannot_join_the_transaction_that_is_open_now_by_its_old_owner(log: Log) -> None:
    """conformance: 31."""
    producer = started(log)
    old = identity(log)
    write_committed(producer, b"a")
    write_open(producer, b"b")
    present = identity(log)
    store = log.services.store
    decided, unknown = own_transaction("copier", old), paths.transaction_owner("copier", 77, 0)

    for owner in (decided, unknown):
        stray = Append(partition(log), present, 1, owner, blocks(log, b"stray"))
        with pytest.raises(InvalidTxnStateError, match="owner="):
            store.transact(lambda view, stray=stray: partition_log.append(view, stray))  # type: ignore[misc]
    producer.commit_transaction()
    assert uncommitted(log) == [b"a", b"b"]


def test_a_write_outside_of_the_transaction_of_its_producer_is_refused_while_that_is_open(log: Log) -> None:
    """conformance: 32."""
    producer = started(log)
    write_open(producer, b"a")
    plain = Append(partition(log), identity(log), 1, None, blocks(log, b"plain"))
    with pytest.raises(InvalidTxnStateError, match="outside of a transaction"):
        log.services.store.transact(lambda view: partition_log.append(view, plain))
    producer.commit_transaction()

    assert uncommitted(log) == [b"a"]


def test_another_producer_id_is_an_invalid_producer_id_mapping(log: Log) -> None:
    """conformance: 20."""
    coordinator = log.services.coordinator
    write_open(started(log), b"a")
    known = identity(log)
    stranger = ProducerIdAndEpoch(known.producer_id + 1, known.epoch)
    for attempt in (
        lambda: coordinator.append("copier", stranger, [request(log, stranger, b"stray")]),
        lambda: coordinator.end_txn("copier", stranger, commit=True),
        lambda: coordinator.end_txn("nobody", known, commit=True),
    ):
        with pytest.raises(InvalidProducerIdMappingError):
            attempt()
    assert state(log).log_end == 1


# Epochs to their end --------------------------------------------------------------------------------------------------


def test_an_init_at_the_last_epoch_takes_a_fresh_producer_id_also_when_it_is_repeated_elsewhere(
    world: LogWorld,
) -> None:
    """conformance: 5, 7."""
    started(world.log)
    for epoch in (LAST_EPOCH, MAX_PRODUCER_EPOCH):
        set_epoch(world.log, "copier", epoch)
        before = identity(world.log)
        after = world.log.services.coordinator.init_producer_id("copier", expected=before).producer

        assert after.epoch == 0
        assert after.producer_id != before.producer_id
        restarted = world.open().services.coordinator
        assert restarted.init_producer_id("copier", expected=before).producer == after


def test_the_end_of_a_transaction_at_the_last_epoch_goes_on_under_a_fresh_producer_id(world: LogWorld) -> None:
    """conformance: 6."""
    started(world.log)
    set_epoch(world.log, "copier", LAST_EPOCH - 1)
    producer = started(world.log)
    last = identity(world.log)
    assert last.epoch == LAST_EPOCH
    write_committed(producer, b"last epoch")
    after = identity(world.log)
    write_committed(producer, b"fresh id")

    assert (after.epoch, after.producer_id != last.producer_id) == (0, True)
    assert values(world.log) == [b"last epoch", b"fresh id"]


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_at_the_last_epoch_is_repeated_with_the_old_identity_also_after_a_restart(
    world: LogWorld, *, commit: bool
) -> None:
    """conformance: 6, 50."""
    started(world.log)
    set_epoch(world.log, "copier", LAST_EPOCH - 1)
    producer = started(world.log)
    last = identity(world.log)
    write_open(producer, b"a")
    answer = world.log.services.coordinator.end_txn("copier", last, commit=commit)
    restarted = world.open().services.coordinator

    assert restarted.end_txn("copier", last, commit=commit) == answer
    with pytest.raises(FatalError):
        restarted.end_txn("copier", last, commit=not commit)
    assert values(world.log) == ([b"a"] if commit else [])


def test_fencing_an_open_transaction_at_the_last_epoch_overflows_nothing(log: Log) -> None:
    """conformance: 7."""
    started(log)
    set_epoch(log, "copier", LAST_EPOCH - 1)
    zombie = started(log)
    write_open(zombie, b"aborted")
    successor = started(log)
    with pytest.raises(FatalError):
        zombie.commit_transaction()
    write_committed(successor, b"a")

    assert values(log) == [b"a"]
    assert identity(log).epoch < 4


# Producer ids ---------------------------------------------------------------------------------------------------------


def test_parallel_allocators_never_give_out_one_id_twice(world: LogWorld) -> None:
    """conformance: 18."""
    taken: list[int] = []

    def take(ids: ProducerIds) -> None:
        taken.extend([ids.take() for _ in range(1500)])

    allocators = [ProducerIds(world.store()) for _ in range(4)]
    threads = [threading.Thread(target=take, args=(ids,)) for ids in allocators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(taken)) == len(taken) == 6000


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST])
def test_a_lost_answer_of_an_allocation_wastes_no_block(world: LogWorld, fault: Fault) -> None:
    """conformance: 17, 18."""
    store = FaultyStore(world.store())
    store.fail_next(fault)
    mine, others = ProducerIds(store), ProducerIds(world.store())

    assert (mine.take(), others.take()) == (0, 1000)


def test_a_lost_answer_that_another_allocator_overtook_wastes_one_block_and_gives_no_id_twice(world: LogWorld) -> None:
    """conformance: 17, 18."""
    others = ProducerIds(world.store())
    taken: list[int] = []
    store = OvertakenStore(world.store(), lambda: taken.append(others.take()))
    store.fail_next(Fault.LOST_REPLY)
    mine = ProducerIds(store).take()

    assert (mine, taken) == (2000, [1000])


def test_used_up_producer_ids_are_a_fatal_error_that_says_what_to_do(world: LogWorld) -> None:
    """conformance: 18."""
    store = world.log.services.store
    store.transact(lambda view: view.set(paths.PRODUCER_IDS, paths.encode({"next": 2**63 - 500})))
    with pytest.raises(FatalError, match="create a new log"):
        world.open().producer().send(TOPIC, b"a")
