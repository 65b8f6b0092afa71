"""The coordinator's calls over a real store: what each writes, and what it answers when it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.coordinator.transactions import TransactionCoordinator, own_transaction
from oncelog.errors import (
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    OncelogError,
    OutcomeUnknownError,
    ProducerFencedError,
)
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.types import OffsetAndMetadata, ProducerIdAndEpoch
from oncelog.znodes import paths, payloads
from tests.support.log.faulty import HICCUPS, Fault, FaultyStore, InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    partition,
    started,
    tp,
    values,
    write_committed,
    write_open,
)
from tests.support.log.rounds import begin, written


def owner_record(log: Log, producer: ProducerIdAndEpoch) -> payloads.OwnerRecord | None:
    path = own_transaction("copier", producer)
    znode = log.services.store.get(path)
    return None if znode is None else payloads.decode_owner(path, znode.data)


def test_the_first_write_creates_the_owner_and_later_ones_extend_it(log: Log) -> None:
    producer = started(log)
    coordinator = log.services.coordinator
    identity = coordinator.describe("copier").producer
    assert owner_record(log, identity) is None
    write_open(producer, b"a", number=0)
    producer.send(TOPIC, b"b", partition=1)
    producer.flush()
    producer.send_offsets_to_transaction({tp(): 1}, "g")
    record = owner_record(log, identity)

    assert record is not None
    assert record.partitions == tuple(paths.partition(partition(log, number)) for number in (0, 1))
    assert record.groups == (paths.group_partition("g", partition(log)),)
    assert record.timeout_ms == 60_000
    assert coordinator.describe("copier").state is TxnState.ONGOING
    producer.commit_transaction()


def test_one_write_decides_and_the_next_transaction_may_begin_at_once(world: LogWorld) -> None:
    producer = started(world.log)
    store = FaultyStore(world.store())
    write_open(producer, b"a")
    identity = world.log.services.coordinator.describe("copier").producer
    coordinator = world.open(store).services.coordinator
    after = coordinator.end_txn("copier", identity, commit=True)

    assert after == ProducerIdAndEpoch(identity.producer_id, identity.epoch + 1)
    assert values(world.log) == [b"a"]
    write_committed(started(world.log), b"b")


@pytest.mark.parametrize("name", ["a/b", "..", "ä ö", "100%", "x" * 200])
def test_any_transactional_id_that_is_text_will_do(log: Log, name: str) -> None:
    write_committed(started(log, name), b"a")

    assert values(log) == [b"a"]
    assert log.services.coordinator.describe(name).transactional_id == name


def test_an_unknown_id_is_named(log: Log) -> None:
    with pytest.raises(InvalidProducerIdMappingError, match="transactional_id='nobody'"):
        log.services.coordinator.describe("nobody")


Step = Callable[[TransactionCoordinator, ProducerIdAndEpoch, Log], object]

STEPS: dict[str, Step] = {
    "init": lambda c, p, _: c.init_producer_id("copier", expected=p).producer,
    "offsets": lambda c, p, log: c.send_offsets("copier", p, "g", {partition(log): OffsetAndMetadata(3)}),
    "prepare": lambda c, p, _: c.prepare("copier", p),
    "commit": lambda c, p, _: c.end_txn("copier", p, commit=True),
    "abort": lambda c, p, _: c.end_txn("copier", p, commit=False),
    "time out": lambda c, p, _: c.time_out(own_transaction("copier", p)),
    "force abort": lambda c, p, _: c.force_abort("copier", own_transaction("copier", p)),
}


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_whose_answer_was_lost_answers_as_if_it_had_not(tmp_path: Path, step: str, fault: Fault) -> None:
    """conformance: 15, 16."""
    answers = []
    for faults in ([], [fault], [fault, fault]):
        with log_world(tmp_path / str(len(faults))) as world:
            world.log.create_topic(TOPIC, partitions=2)
            store = FaultyStore(world.store())
            coordinator = world.open(store).services.coordinator
            write_open(started(world.log), b"a")
            identity = coordinator.describe("copier").producer
            store.fail_next(*faults)
            answer = STEPS[step](coordinator, identity, world.log)
            answers.append((answer, coordinator.describe("copier").epoch, values(world.log)))
            assert store.has_struck == bool(faults)

    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("fault", HICCUPS)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_never_gets_an_answer_raises_and_may_be_repeated(tmp_path: Path, step: str, fault: Fault) -> None:
    """conformance: 16."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=2)
        store = FaultyStore(world.store())
        coordinator = world.open(store).services.coordinator
        write_open(started(world.log), b"a")
        identity = coordinator.describe("copier").producer
        store.fail_next(*[Fault.LOST_REQUEST] * 5 if fault is not Fault.UNAVAILABLE else [fault])
        with pytest.raises(OncelogError) as raised:
            STEPS[step](coordinator, identity, world.log)
        assert isinstance(raised.value, OutcomeUnknownError) == (fault is not Fault.UNAVAILABLE)
        STEPS[step](coordinator, identity, world.log)


def test_an_init_of_unknown_outcome_that_a_newer_one_overtook_is_fenced_and_not_repeated(world: LogWorld) -> None:
    """conformance: 1, 15."""
    started(world.log)
    store = InterruptedStore(world.store(), lambda: started(world.log))
    coordinator = world.open(store).services.coordinator
    store.fail_next(Fault.LOST_REQUEST)
    store.interrupt(1)
    with pytest.raises(ProducerFencedError):
        coordinator.init_producer_id("copier")

    assert coordinator.describe("copier").epoch == 1


# An operator's word ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_prepared", [False, True])
def test_an_operator_aborts_an_open_transaction_prepared_or_not(log: Log, *, is_prepared: bool) -> None:
    """conformance: 43."""
    producer = started(log)
    write_open(producer, b"a")
    if is_prepared:
        producer.prepare_transaction()
    coordinator = log.services.coordinator
    owner = own_transaction("copier", coordinator.describe("copier").producer)

    assert coordinator.force_abort("copier", owner)
    assert not coordinator.force_abort("copier", owner)
    with pytest.raises(FatalError):
        producer.commit_transaction()
    assert values(log) == []


def test_an_operator_who_saw_the_last_transaction_leaves_the_next_one_alone(log: Log) -> None:
    """conformance: 21, 43."""
    producer = started(log)
    write_open(producer, b"a")
    owner = own_transaction("copier", log.services.coordinator.describe("copier").producer)
    producer.commit_transaction()
    write_open(producer, b"b")

    assert not log.services.coordinator.force_abort("copier", owner)
    producer.commit_transaction()
    assert values(log) == [b"a", b"b"]


def test_an_operator_aborts_a_round_and_not_its_participant(log: Log) -> None:
    """conformance: 43, 56."""
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"a"]}))
    with pytest.raises(InvalidTxnStateError, match="abort the round instead"):
        log.services.coordinator.force_abort("sink-0", round_.path)
    round_.decide()

    assert values(log) == [b"a"]
