"""The laws of the transaction coordinator, as far as its pure core decides them, and random histories against them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from oncelog.errors import (
    ConcurrentTransactionsError,
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    OncelogError,
    ProducerFencedError,
)
from oncelog.protocol.coordinator_events import EndTxn, Event
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import PENDING_ONLY, TRANSITIONS, TxnState
from oncelog.types import Outcome, ProducerIdAndEpoch
from tests.support.log.transactions import ID, MAX_TIMEOUT_MS, World, owner_of, partition, stored

ROUND = "/queries/copier/rounds/3"
NEXT_ROUND = "/queries/copier/rounds/4"
COMMIT, ABORT, OPEN = Outcome.COMMIT, Outcome.ABORT, Outcome.OPEN

Request = Callable[[World, ProducerIdAndEpoch], ProducerIdAndEpoch]
REQUESTS: list[Request] = [
    World.add,
    lambda world, p: world.add_offsets(p, "g"),
    World.prepare,
    World.commit,
    World.abort,
]


def open_transaction(epoch: int = 5) -> tuple[World, ProducerIdAndEpoch]:
    """A world whose transaction (7, epoch) is open."""
    return World(stored(TxnState.ONGOING, epoch)), ProducerIdAndEpoch(7, epoch)


def prepared_transaction(epoch: int = 5) -> tuple[World, ProducerIdAndEpoch]:
    world, producer = open_transaction(epoch)
    assert world.prepare(producer) == producer
    return world, producer


def participant(outcome: Outcome = OPEN, epoch: int = 5) -> tuple[World, ProducerIdAndEpoch]:
    """A world whose transaction was prepared by ROUND, which then came to `outcome`."""
    world = World(stored(TxnState.ONGOING, epoch, owner=ROUND, round=ROUND, prepared=True))
    world.owners[ROUND] = outcome
    return world, ProducerIdAndEpoch(7, epoch)


def assert_fenced(world: World, *producers: ProducerIdAndEpoch) -> None:
    """Whatever they ask for, older identities get a fatal error and nothing changes (I8)."""
    before = world.metadata
    for producer in producers:
        for request in REQUESTS:
            with pytest.raises((ProducerFencedError, InvalidProducerIdMappingError)):
                request(world, producer)
    assert world.metadata is before


# InitProducerId ------------------------------------------------------------------------------------------------------


def test_a_new_id_starts_at_epoch_zero_and_every_init_after_it_one_higher() -> None:
    """conformance: 1."""
    world = World()
    first = world.init()

    assert first == ProducerIdAndEpoch(first.producer_id, 0)
    assert [world.init().epoch for _ in range(3)] == [1, 2, 3]
    assert world.known.producer_id == first.producer_id


def test_of_many_parallel_inits_each_has_its_own_epoch_and_the_last_one_survives() -> None:
    """conformance: 1."""
    world = World()
    answers = [world.init() for _ in range(8)]

    assert len(set(answers)) == 8
    assert_fenced(world, *answers[:-1])
    world.add(answers[-1])
    assert world.state is TxnState.ONGOING


def test_the_same_nonce_gets_the_same_answer_again_and_no_other_epoch() -> None:
    """conformance: 1, 15."""
    world = World()
    world.init()
    event = world.init_event()
    answer = world.do(event)
    before = world.metadata

    assert world.do(event) == answer
    assert world.metadata is before


def test_an_init_whose_outcome_was_unknown_is_not_repeated_over_a_newer_one() -> None:
    """conformance: 1, 15."""
    world = World()
    world.init()
    base_nonce = world.known.nonce
    newer = world.init()

    with pytest.raises(ProducerFencedError):
        world.init(base_nonce=base_nonce)
    assert world.known.producer == newer
    assert world.init(base_nonce=world.known.nonce).epoch == newer.epoch + 1


def test_an_init_with_the_current_identity_expected_bumps_it() -> None:
    """conformance: 2."""
    world = World()
    producer = world.init()

    assert world.init(expected=producer) == ProducerIdAndEpoch(producer.producer_id, 1)


def test_an_init_with_the_last_identity_expected_gets_the_same_answer() -> None:
    """conformance: 2."""
    world = World()
    producer = world.init()
    answer = world.init(expected=producer)

    assert world.init(expected=producer) == answer


@pytest.mark.parametrize("state", [state for state in TxnState if state not in {*PENDING_ONLY, TxnState.DEAD}])
@pytest.mark.parametrize("stale", [ProducerIdAndEpoch(7, 3), ProducerIdAndEpoch(7, 6), ProducerIdAndEpoch(6, 5)])
def test_an_init_with_a_stale_identity_expected_is_fenced_and_changes_nothing(
    state: TxnState, stale: ProducerIdAndEpoch
) -> None:
    """conformance: 2."""
    world = World(stored(state, previous_producer_id=7, last_epoch=4))

    with pytest.raises(ProducerFencedError):
        world.run(world.init_event(expected=stale))


def test_an_expected_init_after_another_producers_init_is_fenced() -> None:
    """conformance: 2."""
    world = World()
    first = world.init()
    second = world.init()

    with pytest.raises(ProducerFencedError):
        world.init(expected=first)
    assert world.init(expected=second).epoch == second.epoch + 1


def test_a_producer_of_a_forgotten_id_may_expect_what_it_had() -> None:
    """conformance: 2, 13."""
    assert World().init(expected=ProducerIdAndEpoch(7, 5)).epoch == 0
    assert World(stored(TxnState.DEAD)).init(expected=ProducerIdAndEpoch(7, 5)).epoch == 0


def test_init_over_an_open_transaction_aborts_it_and_fences_its_producer() -> None:
    """conformance: 3."""
    world, old = open_transaction()

    assert world.init() == ProducerIdAndEpoch(7, 7)
    assert world.owners == {owner_of(old): ABORT}
    assert world.state is TxnState.EMPTY
    assert_fenced(world, old, ProducerIdAndEpoch(7, 6))


def test_a_producer_that_recovers_aborts_its_own_transaction_and_goes_on_from_the_abort() -> None:
    """conformance: 2, 3."""
    world, old = open_transaction()

    assert world.init(expected=old) == ProducerIdAndEpoch(7, 6)
    assert world.owners == {owner_of(old): ABORT}


@pytest.mark.parametrize("end", [World.commit, World.abort])
@pytest.mark.parametrize("is_completed", [True, False])
def test_init_over_a_decided_transaction_leaves_its_outcome(end: Request, *, is_completed: bool) -> None:
    """conformance: 4."""
    world, producer = open_transaction()
    end(world, producer)
    decided = dict(world.owners)
    if is_completed:
        world.complete()

    assert world.init() == ProducerIdAndEpoch(7, 7)
    assert world.owners == decided
    assert (world.state, world.instructions) == (TxnState.EMPTY, ())


# Epochs at their end -------------------------------------------------------------------------------------------------


def test_the_last_usable_epoch_is_32766_and_then_comes_a_fresh_producer_id() -> None:
    """conformance: 5."""
    world = World(stored(TxnState.EMPTY, 32765))

    assert world.init() == ProducerIdAndEpoch(7, 32766)
    fresh = world.init()
    assert (fresh.producer_id != 7, fresh.epoch) == (True, 0)
    assert_fenced(world, ProducerIdAndEpoch(7, 32766))


def test_the_retry_of_an_init_that_rotated_the_producer_id_gets_the_same_answer() -> None:
    """conformance: 5."""
    last = ProducerIdAndEpoch(7, 32766)
    world = World(stored(TxnState.EMPTY, 32766))
    fresh = world.init(expected=last)

    # Everything that tells the retry is in the metadata, so a coordinator elsewhere answers the same.
    elsewhere = World(world.metadata)
    assert elsewhere.init(expected=last) == fresh
    with pytest.raises(ProducerFencedError):
        elsewhere.init(expected=ProducerIdAndEpoch(7, 32765))


def test_a_retry_at_the_last_usable_epoch_needs_no_other_one() -> None:
    """conformance: 2, 5."""
    world = World(stored(TxnState.EMPTY, 32765))
    answer = world.init(expected=ProducerIdAndEpoch(7, 32765))

    assert answer == ProducerIdAndEpoch(7, 32766)
    assert world.init(expected=ProducerIdAndEpoch(7, 32765)) == answer


@pytest.mark.parametrize("end", [World.commit, World.abort])
def test_the_end_of_a_transaction_at_32766_moves_to_a_fresh_producer_id_and_its_retry_too(end: Request) -> None:
    """conformance: 6."""
    world, last = open_transaction(32766)
    fresh = end(world, last)

    assert (fresh.producer_id != 7, fresh.epoch) == (True, 0)
    assert end(world, last) == fresh
    world.complete()
    assert end(world, last) == fresh
    world.add(fresh)
    assert_fenced(world, last)


@pytest.mark.parametrize(("epoch", "answer_epoch"), [(32764, 32766), (32765, 0), (32766, 1), (32767, 1)])
def test_init_over_an_open_transaction_near_the_last_epoch_never_overflows(epoch: int, answer_epoch: int) -> None:
    """conformance: 7."""
    world, old = open_transaction(epoch)
    answer = world.init()

    assert answer.epoch == answer_epoch
    assert (answer.producer_id == 7) is (answer_epoch == 32766)
    assert world.owners == {owner_of(old): ABORT}
    assert_fenced(world, old)


@pytest.mark.parametrize("state", [TxnState.EMPTY, TxnState.COMPLETE_ABORT, TxnState.COMPLETE_COMMIT])
def test_an_id_that_stands_at_the_overflow_recovers(state: TxnState) -> None:
    """conformance: 7."""
    assert World(stored(state, 32767)).init().epoch == 0


# Ends ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_completed", [True, False])
def test_an_empty_abort_after_a_commit_works_and_does_not_fence_its_own_producer(*, is_completed: bool) -> None:
    """conformance: 9."""
    world, producer = open_transaction()
    following = world.commit(producer)
    if is_completed:
        world.complete()

    after = world.abort(following)
    assert after == ProducerIdAndEpoch(7, 7)
    assert world.owners == {owner_of(producer): COMMIT}
    world.add(after)
    assert world.state is TxnState.ONGOING


@pytest.mark.parametrize("is_completed", [True, False])
def test_an_empty_commit_is_an_invalid_state(*, is_completed: bool) -> None:
    """conformance: 9."""
    world, producer = open_transaction()
    following = world.commit(producer)
    if is_completed:
        world.complete()

    with pytest.raises(InvalidTxnStateError):
        world.commit(following)
    assert World(stored(TxnState.EMPTY)).abort(producer).epoch == producer.epoch + 1


def test_a_time_out_aborts_and_fences() -> None:
    """conformance: 10."""
    world, producer = open_transaction()

    assert world.time_out(producer) == ProducerIdAndEpoch(7, 6)
    assert world.owners == {owner_of(producer): ABORT}
    for request in (World.add, World.prepare):
        with pytest.raises(ProducerFencedError):
            request(world, producer)


def test_a_commit_after_the_time_out_fails_and_an_abort_is_a_way_on() -> None:
    """conformance: 10."""
    world, producer = open_transaction()
    world.time_out(producer)

    with pytest.raises(InvalidTxnStateError):
        world.commit(producer)
    world.complete()
    with pytest.raises(ProducerFencedError):
        world.commit(producer)
    assert world.abort(producer) == ProducerIdAndEpoch(7, 6)
    assert world.owners == {owner_of(producer): ABORT}


def test_a_time_out_at_the_last_usable_epoch_moves_to_a_fresh_producer_id() -> None:
    """conformance: 7, 10."""
    world, last = open_transaction(32766)
    fresh = world.time_out(last)

    assert (fresh.producer_id != 7, fresh.epoch) == (True, 0)
    assert world.abort(last) == fresh
    with pytest.raises(InvalidTxnStateError):
        world.commit(last)


@pytest.mark.parametrize("is_completed", [True, False])
def test_a_time_out_that_comes_after_the_commit_is_told_so_and_aborts_nothing(*, is_completed: bool) -> None:
    """conformance: 11."""
    world, producer = open_transaction()
    following = world.commit(producer)
    if is_completed:
        world.complete()

    for identity in (producer, following):
        with pytest.raises(InvalidTxnStateError):
            world.time_out(identity)
    assert world.owners == {owner_of(producer): COMMIT}


def test_a_time_out_of_an_older_transaction_does_not_touch_the_next_one() -> None:
    """conformance: 11, 21."""
    world, producer = open_transaction()
    following = world.commit(producer)
    world.add(following)

    with pytest.raises(ProducerFencedError):
        world.time_out(producer)
    assert world.owners[owner_of(following)] is OPEN


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1])
@pytest.mark.parametrize("metadata", [None, stored(TxnState.EMPTY), stored(TxnState.ONGOING)])
def test_a_timeout_outside_its_bounds_is_refused_and_changes_nothing(
    timeout_ms: int, metadata: TransactionMetadata | None
) -> None:
    """conformance: 12."""
    world = World(metadata)

    with pytest.raises(InvalidTransactionTimeoutError) as refused:
        world.init(timeout_ms=timeout_ms)
    assert refused.value.fields == {"timeout_ms": timeout_ms, "max_timeout_ms": MAX_TIMEOUT_MS}
    assert world.metadata is metadata


@pytest.mark.parametrize("before", [World, lambda: open_transaction()[0], lambda: prepared_transaction()[0]])
@pytest.mark.parametrize("keep_prepared", [True, False])
def test_the_largest_timeout_is_within_its_bounds_and_holds_from_the_init_on(
    before: Callable[[], World], *, keep_prepared: bool
) -> None:
    """conformance: 12."""
    world = before()
    world.init(timeout_ms=MAX_TIMEOUT_MS, keep_prepared=keep_prepared)

    assert world.known.timeout_ms == MAX_TIMEOUT_MS


@pytest.mark.parametrize("state", [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT])
def test_an_idle_id_expires_answers_invalid_producer_id_mapping_and_starts_anew(state: TxnState) -> None:
    """conformance: 13."""
    world = World(stored(state, owner=owner_of(ProducerIdAndEpoch(7, 4))))
    world.expire()

    assert world.state is TxnState.DEAD
    for request in REQUESTS:
        with pytest.raises(InvalidProducerIdMappingError):
            request(world, ProducerIdAndEpoch(7, 5))
    again = world.init()
    assert (again.producer_id != 7, again.epoch) == (True, 0)


@pytest.mark.parametrize("state", [TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT])
def test_an_id_with_an_unfinished_transaction_does_not_expire(state: TxnState) -> None:
    """conformance: 13."""
    world = World(stored(state, partitions=(partition(0),)))

    with pytest.raises(InvalidTxnStateError) as refused:
        world.expire()
    assert refused.value.fields["transactional_id"] == ID


def test_a_participant_expires_once_its_round_is_settled_and_not_before() -> None:
    """conformance: 13."""
    world, _ = participant(OPEN)
    with pytest.raises(InvalidTxnStateError):
        world.expire()

    del world.owners[ROUND]  # decided, settled, deleted
    world.expire()
    assert world.state is TxnState.DEAD


def test_a_fence_that_was_not_stored_burns_no_epoch_when_it_is_tried_again() -> None:
    """conformance: 15."""
    world, _ = open_transaction()
    event = world.init_event()
    tries = [world.run(event) for _ in range(5)]

    assert {done.answer for done in tries} == {ProducerIdAndEpoch(7, 7)}
    assert world.do(event) == ProducerIdAndEpoch(7, 7)


@pytest.mark.parametrize("request_of", [World.add, World.commit, World.abort])
def test_another_producer_id_is_an_invalid_producer_id_mapping(request_of: Request) -> None:
    """conformance: 20."""
    world, _ = open_transaction()

    with pytest.raises(InvalidProducerIdMappingError):
        request_of(world, ProducerIdAndEpoch(8, 5))


@pytest.mark.parametrize("end", [World.commit, World.abort])
@pytest.mark.parametrize("delayed", REQUESTS)
def test_a_delayed_request_of_a_transaction_has_no_effect_on_the_next_one(end: Request, delayed: Request) -> None:
    """conformance: 21."""
    world, producer = open_transaction()
    following = end(world, producer)
    world.add(following, 4)
    before, owners = world.metadata, dict(world.owners)

    with pytest.raises(ProducerFencedError):
        delayed(world, producer)
    assert (world.metadata, world.owners) == (before, owners)


@pytest.mark.parametrize("epoch", [5, 32765, 32766])
@pytest.mark.parametrize("is_completed", [True, False])
@pytest.mark.parametrize(("end", "opposite"), [(World.commit, World.abort), (World.abort, World.commit)])
def test_a_double_end_is_idempotent_and_the_opposite_one_fails_loudly(
    end: Request, opposite: Request, epoch: int, *, is_completed: bool
) -> None:
    """conformance: 50."""
    world, producer = open_transaction(epoch)
    answer = end(world, producer)
    decided = dict(world.owners)
    if is_completed:
        world.complete()

    # Everything that tells the retry is in the metadata, so a coordinator elsewhere answers the same.
    world = World(world.metadata)
    assert end(world, producer) == answer
    with pytest.raises(FatalError):
        opposite(world, producer)
    assert world.owners == {}
    assert decided == {owner_of(producer): COMMIT if end is World.commit else ABORT}


# Two-phase commit ----------------------------------------------------------------------------------------------------


def test_a_transaction_prepared_here_is_committed_elsewhere_with_its_pair_alone() -> None:
    """conformance: 49."""
    world, token = prepared_transaction()

    assert world.commit(token) == ProducerIdAndEpoch(7, 6)
    assert world.owners == {owner_of(token): COMMIT}


def test_an_init_that_keeps_the_prepared_transaction_fences_its_producer_and_names_the_token() -> None:
    """conformance: 49, 55."""
    world, token = prepared_transaction()
    resumed = world.init(keep_prepared=True)

    assert resumed == ProducerIdAndEpoch(7, 6)
    assert world.known.prepared_transaction == token
    assert world.owners == {owner_of(token): OPEN}
    assert_fenced(world, token)
    with pytest.raises(InvalidTxnStateError):
        world.add(resumed)


@pytest.mark.parametrize(("is_match", "outcome"), [(True, COMMIT), (False, ABORT)])
@pytest.mark.parametrize("epoch", [5, 32764, 32765, 32766])
def test_the_resumed_producer_commits_by_the_right_token_and_aborts_by_another(
    epoch: int, outcome: Outcome, *, is_match: bool
) -> None:
    """conformance: 49, 50."""
    world, token = prepared_transaction(epoch)
    resumed = world.init(keep_prepared=True)
    resumed = world.init(keep_prepared=True)

    other = ProducerIdAndEpoch(7, epoch - 1)
    asked, contradicting = (token, other) if is_match else (other, token)
    following = world.complete_transaction(resumed, asked)
    assert world.owners == {owner_of(token): outcome}
    assert world.complete_transaction(resumed, asked) == following
    with pytest.raises(InvalidTxnStateError):
        world.complete_transaction(resumed, contradicting)
    assert world.owners == {owner_of(token): outcome}
    world.add(following)
    assert_fenced(world, token, resumed)


def test_after_a_kept_transaction_the_next_epoch_is_one_no_resumed_producer_had() -> None:
    """conformance: 21, 49."""
    world, _ = prepared_transaction()
    resumed = [world.init(keep_prepared=True) for _ in range(3)]
    following = world.commit(resumed[-1])

    assert len({*resumed, following}) == 4
    world.add(following)
    assert_fenced(world, *resumed)


def test_a_kept_transaction_is_aborted_by_an_init_that_does_not_keep_it() -> None:
    """conformance: 3, 55."""
    world, token = prepared_transaction()
    resumed = world.init(keep_prepared=True)
    newer = world.init()

    assert newer == ProducerIdAndEpoch(7, 8)
    assert world.owners == {owner_of(token): ABORT}
    assert_fenced(world, token, resumed, ProducerIdAndEpoch(7, 7))


def test_nothing_is_kept_of_a_transaction_that_nobody_prepared() -> None:
    """conformance: 3."""
    world, producer = open_transaction()
    world.init(keep_prepared=True)

    assert world.known.prepared_transaction is None
    assert world.owners == {owner_of(producer): ABORT}


def test_where_nothing_is_prepared_a_token_completes_nothing() -> None:
    """conformance: 49."""
    world = World()
    resumed = world.init(keep_prepared=True)

    assert world.known.prepared_transaction is None
    with pytest.raises(InvalidTxnStateError):
        world.complete_transaction(resumed, ProducerIdAndEpoch(7, 5))
    world.add(resumed)
    with pytest.raises(InvalidTxnStateError):
        world.complete_transaction(resumed, resumed)


def test_a_prepared_transaction_takes_no_more_writes_and_never_times_out() -> None:
    """conformance: 12, 55, 56."""
    world, producer = prepared_transaction()

    for request in (World.add, lambda world, p: world.add_offsets(p, "g"), World.time_out):
        with pytest.raises(InvalidTxnStateError):
            request(world, producer)
    assert world.owners == {owner_of(producer): OPEN}


def test_a_token_of_a_producer_that_has_started_anew_is_fenced() -> None:
    """conformance: 2, 49."""
    world = World()
    before = world.init()
    world.init(expected=before)

    with pytest.raises(ProducerFencedError):
        world.complete_transaction(before, before)


def test_preparing_twice_answers_the_same_token() -> None:
    """conformance: 50, 55."""
    world, token = prepared_transaction()

    assert world.prepare(token) == token
    assert world.instructions == ()


# Rounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "epoch"), [(COMMIT, 5), (ABORT, 5), (COMMIT, 32765), (COMMIT, 32766), (ABORT, 32766)]
)
@pytest.mark.parametrize("next_round", [NEXT_ROUND, None])
def test_init_over_a_participant_of_a_decided_round_completes_it_with_the_rounds_outcome(
    outcome: Outcome, epoch: int, next_round: str | None
) -> None:
    """conformance: 52, 53, 57."""
    world, old = participant(outcome, epoch)
    answer = world.init(round=next_round)

    assert world.instructions == ()
    assert world.owners == {ROUND: outcome}
    assert (world.state, world.known.round, world.known.prepared) == (TxnState.EMPTY, next_round, False)
    assert answer != old
    assert_fenced(world, old)


@pytest.mark.parametrize("fields", [{}, {"round": NEXT_ROUND}, {"keep_prepared": True}])
def test_an_open_round_keeps_its_participants_from_everyone_else(fields: dict[str, object]) -> None:
    """conformance: 54, 57."""
    world, _ = participant()
    before = world.metadata

    with pytest.raises(ConcurrentTransactionsError) as refused:
        world.init(**fields)
    assert refused.value.fields["round"] == ROUND
    assert (world.metadata, world.owners) == (before, {ROUND: OPEN})


@pytest.mark.parametrize("end", [World.commit, World.abort, World.time_out])
@pytest.mark.parametrize("is_prepared", [True, False])
def test_only_its_round_ends_the_transaction_of_a_participant(end: Request, *, is_prepared: bool) -> None:
    """conformance: 53, 56."""
    world = World(stored(TxnState.ONGOING, owner=ROUND, round=ROUND, prepared=is_prepared))
    world.owners[ROUND] = OPEN

    with pytest.raises(InvalidTxnStateError) as refused:
        end(world, ProducerIdAndEpoch(7, 5))
    assert refused.value.fields["round"] == ROUND
    assert world.owners == {ROUND: OPEN}


def test_a_fenced_participant_is_told_so_before_it_is_told_of_the_round() -> None:
    """conformance: 54."""
    world, _ = participant()

    assert_fenced(world, ProducerIdAndEpoch(7, 4))


def test_an_attempt_that_its_own_round_repeats_loses_its_pair_and_not_the_round() -> None:
    """conformance: 54."""
    world, old = participant()
    answer = world.init(round=ROUND)

    assert world.owners == {ROUND: OPEN}
    assert_fenced(world, old)
    world.add(answer, 1, owner=ROUND)
    assert world.known.open_transaction == answer


def test_an_undecided_round_that_is_aborted_sets_its_participants_free() -> None:
    """conformance: 53, 56, 57."""
    world, _ = participant(OPEN)
    world.owners[ROUND] = ABORT
    producer = world.init()

    world.add(producer)
    assert world.commit(producer).epoch == producer.epoch + 1
    assert world.owners == {ROUND: ABORT, owner_of(producer): COMMIT}


def test_a_round_that_is_settled_and_deleted_sets_its_participants_free() -> None:
    """conformance: 52, 57."""
    world, old = participant(COMMIT)
    del world.owners[ROUND]
    world.init()

    assert (world.state, world.instructions) == (TxnState.EMPTY, ())
    assert_fenced(world, old)


# Random histories ----------------------------------------------------------------------------------------------------


def reachable(state: TxnState) -> set[TxnState]:
    """The states that some sequence of the table's steps leads to; a new life begins after death."""
    found: set[TxnState] = set()
    waiting = [state]
    while waiting:
        for target in TRANSITIONS[waiting.pop()] - found:
            found.add(target)
            waiting.append(target)
    return found


REACHABLE = {state: reachable(state) | ({TxnState.EMPTY} if state is TxnState.DEAD else set()) for state in TxnState}


@dataclass
class Client:
    """A process that was given an identity, and may have been replaced since."""

    identity: ProducerIdAndEpoch
    round: str | None = None


class Histories(RuleBasedStateMachine):
    """Several producers, micro-batches, a sweeper and a settler at one transactional id, in any order.

    `World` checks at each step that its repetition is harmless and that an owner is decided once.
    """

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.newest: Client | None = None
        self.rounds: list[str] = []
        self.begun: set[ProducerIdAndEpoch] = set()
        self.retired: set[int] = set()

    @initialize(epoch=st.sampled_from([None, 0, 32760, 32763, 32764, 32765, 32766, 32767]))
    def start_somewhere(self, epoch: int | None) -> None:
        if epoch is not None:
            self.world = World(stored(TxnState.EMPTY, epoch))

    # The one place where anything happens.

    def attempt(self, act: Callable[[], ProducerIdAndEpoch]) -> ProducerIdAndEpoch | None:
        """The answer, or None when it was refused; a refusal changes nothing."""
        before, owners = self.world.metadata, dict(self.world.owners)
        try:
            answer = act()
        except OncelogError:
            assert (self.world.metadata, self.world.owners) == (before, owners)
            return None
        if before is not None:
            self.check_step(before, self.world.known)
        opened = self.world.known.open_transaction
        if opened is not None and (before is None or before.open_transaction != opened):
            assert opened not in self.begun, "two transactions with one name"
            self.begun.add(opened)
        return answer

    def check_step(self, before: TransactionMetadata, after: TransactionMetadata) -> None:
        assert after is before or after.state in REACHABLE[before.state]
        old, new = before.producer, after.producer
        if new.producer_id == old.producer_id:
            assert new.epoch >= old.epoch, "an identity went backwards"
        else:
            assert new.producer_id not in self.retired, "a producer id came back"
            self.retired.add(old.producer_id)

    def ask(self, client: Client, act: Callable[[], ProducerIdAndEpoch]) -> ProducerIdAndEpoch | None:
        """`attempt`, and whoever is not the newest must fail (I8). A driver asks only while its round is open."""
        if client.round is not None and self.world.owners.get(client.round) is not OPEN:
            return None
        answer = self.attempt(act)
        assert answer is None or client is self.newest, "a zombie was served"
        return answer

    # Producers.

    @rule(target=clients, keep_prepared=st.booleans())
    def start_producer(self, keep_prepared: bool) -> object:
        before = self.world.metadata
        answer = self.attempt(lambda: self.world.init(keep_prepared=keep_prepared))
        if answer is None:
            return multiple()
        kept = None if before is None or before.round is not None else before.prepared_transaction
        assert self.world.known.prepared_transaction == (kept if keep_prepared else None)
        self.newest = Client(answer)
        return self.newest

    @rule(client=clients)
    def recover(self, client: Client) -> None:
        alive = self.world.metadata is not None and self.world.state is not TxnState.DEAD
        answer = self.attempt(lambda: self.world.init(expected=client.identity))
        if answer is not None:
            assert client is self.newest or not alive, "a zombie recovered"
            self.newest, client.identity, client.round = client, answer, None

    @rule(client=clients, number=st.integers(0, 3))
    def write(self, client: Client, number: int) -> None:
        self.ask(client, lambda: self.world.add(client.identity, number, owner=client.round))

    @rule(client=clients)
    def stage_offsets(self, client: Client) -> None:
        self.ask(client, lambda: self.world.add_offsets(client.identity, "g", owner=client.round))

    @rule(client=clients)
    def prepare(self, client: Client) -> None:
        self.ask(client, lambda: self.world.prepare(client.identity))

    @rule(client=clients, commit=st.booleans())
    def end(self, client: Client, commit: bool) -> None:
        event: Event = EndTxn(transactional_id=ID, producer=client.identity, commit=commit)
        opened = self.world.known.open_transaction if self.world.metadata else None
        answer = self.ask(client, lambda: self.world.do(event))
        if answer is not None:
            client.identity = answer
            if opened is not None:
                assert self.world.owners[owner_of(opened)] is (COMMIT if commit else ABORT)

    @rule(client=clients, is_match=st.booleans())
    def complete_by_token(self, client: Client, is_match: bool) -> None:
        kept = self.world.known.prepared_transaction if self.world.metadata else None
        token = kept if is_match and kept is not None else ProducerIdAndEpoch(1, 1)
        answer = self.ask(client, lambda: self.world.complete_transaction(client.identity, token))
        if answer is not None:
            client.identity = answer
            if kept is not None:
                assert self.world.owners[owner_of(kept)] is (COMMIT if is_match else ABORT)

    # Micro-batches.

    @rule(target=clients, is_same_round=st.booleans())
    def start_participant(self, is_same_round: bool) -> object:
        if not (is_same_round and self.open_round()):
            self.abort_round()
            self.rounds.append(f"/queries/copier/rounds/{len(self.rounds) + 1}")
            self.world.owners[self.rounds[-1]] = OPEN
        path = self.rounds[-1]
        answer = self.attempt(lambda: self.world.init(round=path))
        if answer is None:
            return multiple()
        self.newest = Client(answer, path)
        return self.newest

    def open_round(self) -> bool:
        return bool(self.rounds) and self.world.owners.get(self.rounds[-1]) is OPEN

    @precondition(open_round)
    @rule(outcome=st.sampled_from([COMMIT, ABORT]))
    def decide_round(self, outcome: Outcome) -> None:
        self.world.owners[self.rounds[-1]] = outcome

    def abort_round(self) -> None:
        if self.open_round():
            self.decide_round(ABORT)

    @rule()
    def delete_settled_rounds(self) -> None:
        for path in self.rounds:
            if self.world.owners.get(path) in {COMMIT, ABORT}:
                del self.world.owners[path]

    # Sweeper and settler.

    @precondition(lambda self: self.world.metadata is not None)
    @rule()
    def time_out(self) -> None:
        before = self.world.known
        opened = before.open_transaction
        if opened is None:
            return
        answer = self.attempt(lambda: self.world.time_out(opened))
        assert answer is None or not (before.prepared or before.round)

    @precondition(lambda self: self.world.metadata is not None)
    @rule()
    def settle(self) -> None:
        self.attempt(self.world.complete)

    @precondition(lambda self: self.world.metadata is not None)
    @rule()
    def expire(self) -> None:
        self.attempt(self.world.expire)

    # What holds at all times.

    @invariant()
    def the_state_agrees_with_the_owner(self) -> None:
        metadata = self.world.metadata
        if metadata is None:
            return
        assert metadata.state not in PENDING_ONLY
        outcome = self.world.owner_outcome
        if metadata.state is TxnState.ONGOING and metadata.round is None:
            assert outcome is OPEN
        if metadata.state is TxnState.PREPARE_COMMIT:
            assert outcome is COMMIT
        if metadata.state is TxnState.PREPARE_ABORT:
            assert outcome is ABORT

    @invariant()
    def only_the_owner_of_the_ongoing_transaction_is_open(self) -> None:
        metadata = self.world.metadata
        for owner, outcome in self.world.owners.items():
            if outcome is OPEN and owner not in self.rounds:
                assert metadata is not None
                assert (metadata.state, metadata.owner) == (TxnState.ONGOING, owner)


Histories.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestHistories = Histories.TestCase
