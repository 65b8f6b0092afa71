"""What a step stores, carries out and tells."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from oncelog.errors import (
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    InvariantViolation,
    OncelogError,
    ProducerFencedError,
)
from oncelog.protocol.coordinator_core import step
from oncelog.protocol.coordinator_events import (
    AddOffsets,
    AddPartitions,
    Complete,
    CompleteTransaction,
    CreateOwner,
    Decide,
    EndTxn,
    Event,
    Expire,
    ExtendOwner,
    Prepare,
    ProducerIdNeeded,
    TimedOut,
)
from oncelog.protocol.txn_state import TxnState
from oncelog.types import MAX_PRODUCER_EPOCH, Outcome, ProducerIdAndEpoch
from tests.support.log.transactions import ID, World, owner_of, partition, stored

ROUND = "/queries/copier/rounds/3"
PRODUCER = ProducerIdAndEpoch(7, 5)


def add(*numbers: int, producer: ProducerIdAndEpoch = PRODUCER, owner: str | None = None) -> AddPartitions:
    partitions = tuple(partition(number) for number in numbers)
    return AddPartitions(
        transactional_id=ID, producer=producer, partitions=partitions, owner=owner or owner_of(producer)
    )


# Owners --------------------------------------------------------------------------------------------------------------


def test_the_first_partition_creates_the_owner_and_later_ones_extend_it() -> None:
    world = World()
    producer = world.init()
    owner = owner_of(producer)

    world.add(producer, 2)
    assert world.instructions == (CreateOwner(owner, producer, (partition(2),), ()),)
    world.add(producer, 1)
    assert world.instructions == (ExtendOwner(owner, producer, (partition(1), partition(2)), ()),)
    world.add_offsets(producer, "g")
    assert world.instructions == (ExtendOwner(owner, producer, (partition(1), partition(2)), ("g",)),)


def test_the_first_offsets_create_the_owner_too() -> None:
    world = World()
    producer = world.init()

    world.add_offsets(producer, "g")

    assert world.state is TxnState.ONGOING
    assert world.instructions == (CreateOwner(owner_of(producer), producer, (), ("g",)),)


def test_what_is_listed_already_writes_nothing() -> None:
    world = World()
    producer = world.init()
    world.add(producer, 1, 2)
    before = world.metadata

    world.add(producer, 2)

    assert world.instructions == ()
    assert world.metadata is before


def test_a_participant_of_a_round_extends_the_owner_that_its_round_created() -> None:
    world = World()
    world.owners[ROUND] = Outcome.OPEN
    producer = world.init(round=ROUND)

    world.add(producer, 1, owner=ROUND)

    assert world.instructions == (ExtendOwner(ROUND, producer, (partition(1),), ()),)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_decides_the_owner_and_keeps_what_must_be_settled(*, commit: bool) -> None:
    metadata = stored(TxnState.ONGOING, partitions=(partition(0), partition(1)), pending_groups=("g",))

    done = step(metadata, EndTxn(transactional_id=ID, producer=PRODUCER, commit=commit))

    assert done.instructions == (Decide(owner_of(PRODUCER), Outcome.COMMIT if commit else Outcome.ABORT),)
    assert (done.metadata.partitions, done.metadata.pending_groups) == (metadata.partitions, ("g",))
    assert done.metadata.owner == metadata.owner


def test_the_next_transaction_begins_at_once_under_its_own_owner_and_starts_empty() -> None:
    world = World()
    first = world.init()
    world.add(first, 1)
    second = world.commit(first)

    world.add(second, 2)

    assert world.known.partitions == (partition(2),)
    assert world.owners == {owner_of(first): Outcome.COMMIT, owner_of(second): Outcome.OPEN}


def test_a_write_under_another_owner_than_the_open_one_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="owner of its own"):
        step(stored(TxnState.ONGOING), add(1, owner="/transactions/other"))


def test_a_second_transaction_under_the_same_owner_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="owner of its own"):
        step(stored(TxnState.COMPLETE_ABORT, owner=owner_of(PRODUCER)), add(1))


def test_a_participant_that_writes_outside_of_its_round_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="round owns"):
        step(stored(TxnState.EMPTY, round=ROUND), add(1))


@pytest.mark.parametrize("outcome", [Outcome.COMMIT, Outcome.ABORT, None])
def test_an_ongoing_transaction_whose_own_owner_is_not_open_is_a_corrupt_store(outcome: Outcome | None) -> None:
    world = World(stored(TxnState.ONGOING))

    with pytest.raises(InvariantViolation, match="is open"):
        step(world.metadata, world.init_event(owner_outcome=outcome))


# Completion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepared", "completed"),
    [(TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT), (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)],
)
def test_completion_forgets_what_was_settled(prepared: TxnState, completed: TxnState) -> None:
    world = World(stored(prepared, partitions=(partition(0),), pending_groups=("g",), owner=owner_of(PRODUCER)))

    world.complete()

    assert (world.state, world.known.partitions, world.known.pending_groups) == (completed, (), ())


@pytest.mark.parametrize(
    "state",
    [TxnState.EMPTY, TxnState.ONGOING, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT, TxnState.DEAD],
)
def test_completion_of_an_id_that_went_on_writes_nothing(state: TxnState) -> None:
    metadata = stored(state)

    assert step(metadata, Complete(transactional_id=ID, owner_outcome=Outcome.OPEN)).metadata is metadata


def participant(epoch: int = 5) -> World:
    """Prepared under the open round."""
    world = World(stored(TxnState.ONGOING, epoch, owner=ROUND, round=ROUND, prepared=True))
    world.owners[ROUND] = Outcome.OPEN
    return world


@pytest.mark.parametrize(
    ("outcome", "completed"),
    [(Outcome.COMMIT, TxnState.COMPLETE_COMMIT), (Outcome.ABORT, TxnState.COMPLETE_ABORT)],
)
def test_completion_of_a_participant_follows_its_round_and_moves_its_identity_on(
    outcome: Outcome, completed: TxnState
) -> None:
    world = participant()
    world.owners[ROUND] = outcome

    assert world.complete() == ProducerIdAndEpoch(7, 6)
    assert (world.state, world.known.prepared, world.instructions) == (completed, False, ())


@pytest.mark.parametrize("outcome", [Outcome.OPEN, None])
def test_completion_never_guesses_what_a_round_decided(outcome: Outcome | None) -> None:
    world = participant()

    assert step(world.metadata, Complete(transactional_id=ID, owner_outcome=outcome)).metadata is world.metadata


# At once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        TxnState.EMPTY,
        TxnState.PREPARE_COMMIT,
        TxnState.PREPARE_ABORT,
        TxnState.COMPLETE_COMMIT,
        TxnState.COMPLETE_ABORT,
    ],
)
@pytest.mark.parametrize("epoch", [5, 32766])
def test_a_commit_at_once_leaves_what_its_three_steps_leave_and_writes_no_owner(state: TxnState, epoch: int) -> None:
    at_once, by_steps = World(stored(state, epoch)), World(stored(state, epoch))
    producer = at_once.known.producer

    answer = at_once.commit_at_once(producer)
    assert at_once.instructions == ()
    by_steps.add(producer)
    by_steps.commit(producer)

    assert answer == by_steps.complete()
    assert at_once.metadata == by_steps.metadata


def test_a_transaction_that_was_begun_is_not_committed_at_once() -> None:
    world = World()
    producer = world.init()
    world.add(producer)

    with pytest.raises(InvariantViolation, match="was not begun before"):
        world.commit_at_once(producer)


def test_a_participant_of_a_round_commits_nothing_at_once() -> None:
    world = World(stored(TxnState.EMPTY, round=ROUND))

    with pytest.raises(InvariantViolation, match="a round owns what its participants write"):
        world.commit_at_once(PRODUCER)


# Fresh producer ids --------------------------------------------------------------------------------------------------


def exhausted_participant() -> tuple[World, Event]:
    world = participant(epoch=32766)
    world.owners[ROUND] = Outcome.COMMIT
    return world, Complete(transactional_id=ID, owner_outcome=Outcome.COMMIT)


def exhausted(state: TxnState, **fields: Any) -> World:
    return World(stored(state, 32766, **fields))


LAST = ProducerIdAndEpoch(7, 32766)
ROTATING = [
    pytest.param(World(), World().init_event(), id="new id"),
    pytest.param(World(stored(TxnState.DEAD)), World().init_event(), id="expired id"),
    pytest.param(exhausted(TxnState.EMPTY), World().init_event(), id="init"),
    pytest.param(
        exhausted(TxnState.ONGOING), World().init_event(owner_outcome=Outcome.OPEN), id="init over an open transaction"
    ),
    pytest.param(
        exhausted(TxnState.ONGOING, prepared=True),
        World().init_event(owner_outcome=Outcome.OPEN, keep_prepared=True),
        id="init that keeps",
    ),
    pytest.param(exhausted(TxnState.ONGOING), EndTxn(transactional_id=ID, producer=LAST, commit=True), id="commit"),
    pytest.param(exhausted(TxnState.EMPTY), EndTxn(transactional_id=ID, producer=LAST, commit=False), id="empty abort"),
    pytest.param(
        exhausted(TxnState.ONGOING, prepared=True),
        CompleteTransaction(transactional_id=ID, producer=LAST, owner=owner_of(LAST)),
        id="complete by token",
    ),
    pytest.param(exhausted(TxnState.ONGOING), TimedOut(transactional_id=ID, producer=LAST), id="time-out"),
    pytest.param(*exhausted_participant(), id="completion of a participant"),
]


@pytest.mark.parametrize(("world", "event"), ROTATING)
def test_a_step_that_needs_a_fresh_producer_id_asks_before_it_does_anything(world: World, event: Event) -> None:
    with pytest.raises(ProducerIdNeeded):
        step(world.metadata, event)

    assert not isinstance(event, AddPartitions | AddOffsets | Prepare | Expire)
    done = step(world.metadata, replace(event, fresh_producer_id=99))
    assert done.answer.producer_id == 99


# Metadata that cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        (TxnState.PREPARE_EPOCH_FENCE, {}),
        (TxnState.EMPTY, {"producer_id": -1}),
        (TxnState.EMPTY, {"epoch": -1}),
        (TxnState.EMPTY, {"epoch": MAX_PRODUCER_EPOCH + 1}),
        (TxnState.ONGOING, {"owner": None}),
        (TxnState.ONGOING, {"partitions": ()}),
        (TxnState.EMPTY, {"partitions": (partition(0),)}),
        (TxnState.COMPLETE_COMMIT, {"pending_groups": ("g",)}),
        (TxnState.EMPTY, {"prepared": True}),
        (TxnState.PREPARE_COMMIT, {"prepared": True}),
        (TxnState.ONGOING, {"next_producer_id": 7, "next_epoch": 6}),
    ],
)
def test_metadata_that_no_step_leads_to_is_refused_when_it_is_read(state: TxnState, fields: dict[str, Any]) -> None:
    with pytest.raises(InvariantViolation):
        stored(state, **fields)


def test_an_event_for_another_id_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="its own id"):
        step(stored(TxnState.EMPTY), Expire(transactional_id="other", owner_outcome=None))


# What errors tell ----------------------------------------------------------------------------------------------------

STALE = ProducerIdAndEpoch(7, 3)


@pytest.mark.parametrize(
    ("state", "event", "error"),
    [
        (TxnState.ONGOING, add(1, producer=STALE), ProducerFencedError),
        (TxnState.ONGOING, add(1, producer=ProducerIdAndEpoch(6, 5)), InvalidProducerIdMappingError),
        (TxnState.EMPTY, Prepare(transactional_id=ID, producer=PRODUCER), InvalidTxnStateError),
        (TxnState.EMPTY, EndTxn(transactional_id=ID, producer=PRODUCER, commit=True), InvalidTxnStateError),
        (TxnState.EMPTY, TimedOut(transactional_id=ID, producer=PRODUCER), InvalidTxnStateError),
        (
            TxnState.EMPTY,
            CompleteTransaction(transactional_id=ID, producer=PRODUCER, owner=owner_of(PRODUCER)),
            InvalidTxnStateError,
        ),
        (TxnState.ONGOING, Expire(transactional_id=ID, owner_outcome=Outcome.OPEN), InvalidTxnStateError),
        (TxnState.DEAD, add(1), InvalidProducerIdMappingError),
        (TxnState.EMPTY, World().init_event(expected=STALE), ProducerFencedError),
    ],
)
def test_an_error_tells_whose_request_in_which_state_with_which_identities(
    state: TxnState, event: Event, error: type[OncelogError]
) -> None:
    with pytest.raises(error) as refused:
        step(stored(state), event)

    told = pickle.loads(pickle.dumps(refused.value)).fields
    given = getattr(event, "producer", None) or getattr(event, "expected", None)
    assert told["transactional_id"] == ID
    assert told["request"] == type(event).__name__
    assert (told["state"], told["stored"]) == (state.value, "7.5")
    assert told["given"] == (None if given is None else str(given))
