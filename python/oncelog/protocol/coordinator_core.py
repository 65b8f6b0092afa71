"""The pure transaction coordinator: what a request does to a transactional id, and what is written with it.

Owns `step`, the only function that changes the metadata of a transactional id (transaction_metadata.py), for a request
(coordinator_events.py) of an identity that is allowed to act (identities.py). It must never read a znode, a clock or a
random number: the caller puts everything into the event. coordinator/transactional_ids.py, the only caller, runs `step`
inside a `transact`, stores `Step.metadata`, and executes `Step.instructions` in the same multi.

Why a transaction has one outcome. Assumptions: (1) the multi compares the metadata that `step` was given; (2) only
`Decide` writes an outcome into the znode of a transaction's owner, and this write is the decision. With a `Decide`, the
state leaves ``ongoing`` in the same multi. No step leads back to ``ongoing`` with the same owner, because the end of a
transaction takes the next epoch, and the owner's name contains the epoch. Hence no owner is decided twice (invariant
I6). The owner of a micro-batch is its *round*, which decides for all its participants at once; here, a participant's
transaction ends only after its round was decided.

Source: Kafka's ``TransactionCoordinator`` and ``TransactionMetadata`` with transactions version 2. Differences:
  - The end of a transaction is complete for its producer at once. Kafka answers CONCURRENT_TRANSACTIONS until the
    markers are written; here readers ask the owner, and ``complete_x`` is written lazily, with the next step. For the
    same reason, a new producer id takes over with the decision; Kafka keeps it as the next one until the completion.
  - `InitProducerId` over an open transaction fences, aborts and answers in one step; in Kafka it must be retried.
  - `InitProducerId` with an outdated expected pair is refused first of all. While a transaction is open, Kafka compares
    only the producer id, and aborts the transaction of a newer epoch.
  - Preparing is a stored mark. Kafka's coordinator does not know of it, and keeps any open transaction on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from types import MappingProxyType
from typing import assert_never, cast

from oncelog.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ensure,
)
from oncelog.protocol.coordinator_events import (
    AddOffsets,
    AddPartitions,
    CommitAtOnce,
    Complete,
    CompleteTransaction,
    CreateOwner,
    Decide,
    EndTxn,
    Event,
    Expire,
    ExtendOwner,
    InitProducerId,
    Instruction,
    Prepare,
    Step,
    TimedOut,
    Transactional,
)
from oncelog.protocol.identities import check_identity, fenced, fresh, moved_on, next_identity, story
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import COMPLETIONS, TxnState, pass_through, transition
from oncelog.types import NO_PRODUCER_EPOCH, Outcome, TopicIdPartition

_PREPARE: Mapping[Outcome, TxnState] = MappingProxyType(
    {Outcome.COMMIT: TxnState.PREPARE_COMMIT, Outcome.ABORT: TxnState.PREPARE_ABORT}
)


# The step -------------------------------------------------------------------------------------------------------------


def step(metadata: TransactionMetadata | None, event: Event) -> Step:
    """Apply `event` to a transactional id.

    Args:
        metadata: as stored; None for an unknown id.
        event: the request, with everything that the step must know.

    Returns:
        what to store, to execute and to answer. The same event on the stored result gives the same answer and writes
        nothing, so a step with an unknown outcome can be run again (invariant I5).

    Raises:
        ProducerIdNeeded: run the step again with a new producer id.
        ProducerFencedError: another identity has taken over; close this producer.
        InvalidProducerIdMappingError: the id is unknown or expired, or has another producer id; use a new producer.
        InvalidTxnStateError: the state forbids the step; the message says why.
        ConcurrentTransactionsError: an open micro-batch owns the id's transaction; wait until it is decided.
        InvalidTransactionTimeoutError: correct ``transaction_timeout_ms``.
    """
    is_addressed = metadata is None or metadata.transactional_id == event.transactional_id
    _ensure(is_addressed, "an event meets the metadata of its own id", metadata, event)
    if isinstance(event, InitProducerId):
        return _init_producer_id(metadata, event)
    is_housekeeping = isinstance(event, Complete | Expire)
    if metadata is None or (metadata.state is TxnState.DEAD and not is_housekeeping):
        raise InvalidProducerIdMappingError(
            "The transactional id is unknown or expired; call init_transactions on a new producer",
            **story(metadata, event),
        )
    match event:
        case Complete():
            return _complete(metadata, event)
        case Expire():
            return _expire(metadata, event)
        case _:
            is_retry = check_identity(metadata, event.producer, event)
            return _transactional_step(metadata, event, is_retry=is_retry)


def _transactional_step(metadata: TransactionMetadata, event: Transactional, *, is_retry: bool) -> Step:
    match event:
        case AddPartitions(partitions=partitions):
            return _add(metadata, event, partitions=partitions)
        case AddOffsets(group=group):
            return _add(metadata, event, groups=(group,))
        case Prepare():
            return _prepare(metadata, event)
        case EndTxn(commit=commit):
            return _end_txn(metadata, event, Outcome.COMMIT if commit else Outcome.ABORT, is_retry=is_retry)
        case CommitAtOnce():
            return _commit_at_once(metadata, event, is_retry=is_retry)
        case CompleteTransaction():
            return _complete_transaction(metadata, event, is_retry=is_retry)
        case TimedOut():
            return _time_out(metadata, event, is_retry=is_retry)
        case _:
            assert_never(event)


# Starting -------------------------------------------------------------------------------------------------------------


def _init_producer_id(metadata: TransactionMetadata | None, event: InitProducerId) -> Step:
    ensure(event.nonce != "", "an init has a nonce")
    ensure(event.round is None or not event.keep_prepared, "a round keeps nothing")
    if not 0 < event.timeout_ms <= event.max_timeout_ms:
        raise InvalidTransactionTimeoutError(
            "transaction_timeout_ms must be positive and at most the maximum",
            timeout_ms=event.timeout_ms,
            max_timeout_ms=event.max_timeout_ms,
        )
    if metadata is None or metadata.state is TxnState.DEAD:
        return _first_incarnation(event)
    if metadata.nonce == event.nonce:
        return Step(metadata, (), metadata.producer)
    if event.base_nonce not in {None, metadata.nonce}:
        raise fenced(metadata, event)
    if event.expected is not None:
        check_identity(metadata, event.expected, event)
    if metadata.state is not TxnState.ONGOING:
        return _next_incarnation(_completed(metadata), event)
    return _init_over_open_transaction(metadata, event)


def _first_incarnation(event: InitProducerId) -> Step:
    metadata = TransactionMetadata(
        transactional_id=event.transactional_id,
        producer_id=fresh(event.fresh_producer_id),
        epoch=0,
        timeout_ms=event.timeout_ms,
        round=event.round,
        nonce=event.nonce,
    )
    return Step(metadata, (), metadata.producer)


def _next_incarnation(
    metadata: TransactionMetadata, event: InitProducerId, instructions: tuple[Instruction, ...] = ()
) -> Step:
    """Give the id, which has no open transaction, its next identity.

    If the expected identity is the last one, the current identity already is its next one: either an earlier try got
    it, or this step ended the transaction and took it.
    """
    if event.expected is not None and event.expected == metadata.last:
        begun = replace(metadata, state=transition(metadata.state, TxnState.EMPTY))
    else:
        begun = moved_on(metadata, event.fresh_producer_id, TxnState.EMPTY)
    begun = replace(
        begun,
        last_epoch=NO_PRODUCER_EPOCH if event.expected is None else begun.last_epoch,
        timeout_ms=event.timeout_ms,
        round=event.round,
        nonce=event.nonce,
    )
    return Step(begun, instructions, begun.producer)


def _init_over_open_transaction(metadata: TransactionMetadata, event: InitProducerId) -> Step:
    if metadata.round is not None:
        return _init_over_round(metadata, event)
    is_consistent = event.owner_outcome is Outcome.OPEN
    _ensure(is_consistent, "the owner of a producer's ongoing transaction is open", metadata, event)
    if metadata.prepared and event.keep_prepared:
        return _keep_prepared(metadata, event)
    ended, decide = _ended_by_fence(metadata, event.fresh_producer_id)
    return _next_incarnation(_completed(ended), event, (decide,))


def _keep_prepared(metadata: TransactionMetadata, event: InitProducerId) -> Step:
    identity = next_identity(metadata.producer, event.fresh_producer_id)
    kept = replace(
        metadata,
        state=transition(metadata.state, TxnState.ONGOING),
        next_producer_id=identity.producer_id,
        next_epoch=identity.epoch,
        timeout_ms=event.timeout_ms,
        nonce=event.nonce,
    )
    return Step(kept, (), identity)


def _init_over_round(metadata: TransactionMetadata, event: InitProducerId) -> Step:
    """Leave the transaction to its round: only the round's decision, or the round itself, ends it.

    If another round is open, the error is retriable, because the caller only has to wait: the round will be decided, or
    any process may abort it after its time-out. If the open round initialises its own participant again, the earlier
    pair loses: the round will not list it as a participant, and readers only see listed pairs.
    """
    if event.owner_outcome is Outcome.OPEN and event.round != metadata.round:
        raise ConcurrentTransactionsError(
            "An open micro-batch owns the transaction of this id; wait until its round is decided or aborted",
            **story(metadata, event),
        )
    return _next_incarnation(_completed(_ended_by_round(metadata, event)), event)


# Within a transaction -------------------------------------------------------------------------------------------------


def _add(
    metadata: TransactionMetadata,
    event: AddPartitions | AddOffsets,
    *,
    partitions: Iterable[TopicIdPartition] = (),
    groups: Iterable[str] = (),
) -> Step:
    if metadata.prepared:
        raise InvalidTxnStateError(
            "The transaction is prepared and takes no more writes; commit or abort it", **story(metadata, event)
        )
    was_open = metadata.state is TxnState.ONGOING
    _check_owner(metadata, event, was_open=was_open)
    before = _completed(metadata)
    after = replace(
        before,
        state=transition(before.state, TxnState.ONGOING),
        partitions=tuple(sorted({*before.partitions, *partitions})),
        pending_groups=tuple(sorted({*before.pending_groups, *groups})),
        owner=event.owner,
    )
    if after == metadata:
        return Step(metadata, (), metadata.producer)
    touched = (after.partitions, after.pending_groups)
    if was_open or metadata.round is not None:
        return Step(after, (ExtendOwner(event.owner, after.producer, *touched),), after.producer)
    return Step(after, (CreateOwner(event.owner, after.producer, *touched),), after.producer)


def _check_owner(
    metadata: TransactionMetadata, event: AddPartitions | AddOffsets | CommitAtOnce, *, was_open: bool
) -> None:
    if metadata.round is not None:
        _ensure(event.owner == metadata.round, "a round owns what its participants write", metadata, event)
    else:
        is_same = event.owner == metadata.owner
        _ensure(is_same == was_open, "each transaction has an owner of its own", metadata, event)


def _prepare(metadata: TransactionMetadata, event: Prepare) -> Step:
    token = metadata.open_transaction
    if token is None:
        raise InvalidTxnStateError("No transaction is open, so none can be prepared", **story(metadata, event))
    if metadata.prepared:
        return Step(metadata, (), token)
    prepared = replace(metadata, state=transition(metadata.state, TxnState.ONGOING), prepared=True)
    return Step(prepared, (), token)


# Ending ---------------------------------------------------------------------------------------------------------------


class _Answer(Enum):
    """The answer to an `EndTxn` if no transaction is open."""

    OK = auto()  # an earlier try of this request succeeded
    EMPTY_ABORT = auto()  # the transaction never began: ok, with the next identity
    FENCED = auto()
    INVALID = auto()


_OK, _EMPTY_ABORT, _FENCED, _INVALID = _Answer

_END_TXN: Mapping[TxnState, Mapping[Outcome, tuple[_Answer, _Answer]]] = MappingProxyType(
    #                              abort: retry, current                   commit: retry, current
    {
        TxnState.EMPTY: {Outcome.ABORT: (_FENCED, _EMPTY_ABORT), Outcome.COMMIT: (_FENCED, _INVALID)},
        TxnState.PREPARE_COMMIT: {Outcome.ABORT: (_INVALID, _EMPTY_ABORT), Outcome.COMMIT: (_OK, _INVALID)},
        TxnState.COMPLETE_COMMIT: {Outcome.ABORT: (_INVALID, _EMPTY_ABORT), Outcome.COMMIT: (_OK, _INVALID)},
        TxnState.PREPARE_ABORT: {Outcome.ABORT: (_OK, _EMPTY_ABORT), Outcome.COMMIT: (_INVALID, _INVALID)},
        TxnState.COMPLETE_ABORT: {Outcome.ABORT: (_OK, _EMPTY_ABORT), Outcome.COMMIT: (_FENCED, _INVALID)},
    }
)
"""Kafka's table for EndTxn if no transaction is open. A *retry* is a request with the identity before the current one.

A commit after someone else's abort (a time-out) is an invalid state until that abort is complete, and then fenced
(KAFKA-20785). Both are fatal.
"""


def _end_txn(
    metadata: TransactionMetadata,
    event: EndTxn | CommitAtOnce | CompleteTransaction | TimedOut,
    outcome: Outcome,
    *,
    is_retry: bool,
) -> Step:
    if metadata.state is TxnState.ONGOING:
        _refuse_for_round(metadata, event)
        ended = moved_on(metadata, event.fresh_producer_id, _PREPARE[outcome])
        return Step(ended, (Decide(_owner_of(metadata), outcome),), ended.producer)
    retry, current = _END_TXN[metadata.state][outcome]
    match retry if is_retry else current:
        case _Answer.OK:
            return Step(metadata, (), metadata.producer)
        case _Answer.EMPTY_ABORT:
            aborted = _completed(moved_on(_completed(metadata), event.fresh_producer_id, TxnState.PREPARE_ABORT))
            return Step(aborted, (), aborted.producer)
        case _Answer.FENCED:
            raise fenced(metadata, event)
        case _:
            raise InvalidTxnStateError(
                "There is no open transaction to end this way", outcome=outcome, **story(metadata, event)
            )


def _commit_at_once(metadata: TransactionMetadata, event: CommitAtOnce, *, is_retry: bool) -> Step:
    if is_retry:
        return _end_txn(metadata, event, Outcome.COMMIT, is_retry=True)
    _ensure(metadata.state is not TxnState.ONGOING, "what is committed at once was not begun before", metadata, event)
    _check_owner(metadata, event, was_open=False)
    through = (TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
    committed = moved_on(_completed(metadata), event.fresh_producer_id, *through, owner=event.owner)
    return Step(committed, (), committed.producer)


def _complete_transaction(metadata: TransactionMetadata, event: CompleteTransaction, *, is_retry: bool) -> Step:
    """End the transaction as the token says; an error if somebody else, such as an operator, ended it the other way."""
    if not is_retry and metadata.prepared_transaction is None:
        raise InvalidTxnStateError(
            "No transaction is prepared: it was completed before, or never prepared", **story(metadata, event)
        )
    outcome = Outcome.COMMIT if event.owner == metadata.owner else Outcome.ABORT
    return _end_txn(metadata, event, outcome, is_retry=is_retry)


def _time_out(metadata: TransactionMetadata, event: TimedOut, *, is_retry: bool) -> Step:
    if is_retry:
        return _end_txn(metadata, event, Outcome.ABORT, is_retry=True)
    if metadata.state is not TxnState.ONGOING or metadata.prepared:
        raise InvalidTxnStateError(
            "Only a transaction that is open and not prepared times out", **story(metadata, event)
        )
    _refuse_for_round(metadata, event)
    ended, decide = _ended_by_fence(metadata, event.fresh_producer_id)
    return Step(ended, (decide,), ended.producer)


def _complete(metadata: TransactionMetadata, event: Complete) -> Step:
    if _round_is_over(metadata, event) and event.owner_outcome is not None:
        metadata = _ended_by_round(metadata, event)
    completed = _completed(metadata)
    return Step(completed, (), completed.producer)


def _expire(metadata: TransactionMetadata, event: Expire) -> Step:
    if metadata.state is TxnState.DEAD:
        return Step(metadata, (), metadata.producer)
    is_settled_round = _round_is_over(metadata, event)
    if metadata.state in COMPLETIONS or (metadata.state is TxnState.ONGOING and not is_settled_round):
        raise InvalidTxnStateError("An id with an unfinished transaction does not expire", **story(metadata, event))
    end = (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT) if is_settled_round else ()
    dead = replace(
        metadata,
        state=pass_through(metadata.state, *end, TxnState.DEAD),
        partitions=(),
        pending_groups=(),
        prepared=False,
        owner=None,
        round=None,
    )
    return Step(dead, (), dead.producer)


# Parts of a step ------------------------------------------------------------------------------------------------------


def _ended_by_fence(metadata: TransactionMetadata, fresh_producer_id: int | None) -> tuple[TransactionMetadata, Decide]:
    """Abort the open transaction, and fence its producer."""
    ended = moved_on(metadata, fresh_producer_id, TxnState.PREPARE_EPOCH_FENCE, TxnState.PREPARE_ABORT)
    return ended, Decide(_owner_of(metadata), Outcome.ABORT)


def _ended_by_round(metadata: TransactionMetadata, event: InitProducerId | Complete) -> TransactionMetadata:
    """End the open transaction as its round was decided. If the round does not list it (any more), it is aborted."""
    outcome = Outcome.COMMIT if event.owner_outcome is Outcome.COMMIT else Outcome.ABORT
    return moved_on(metadata, event.fresh_producer_id, _PREPARE[outcome])


def _completed(metadata: TransactionMetadata) -> TransactionMetadata:
    """Complete a decided transaction; any other state stays the same."""
    target = COMPLETIONS.get(metadata.state)
    if target is None:
        return metadata
    return replace(metadata, state=transition(metadata.state, target), partitions=(), pending_groups=())


def _round_is_over(metadata: TransactionMetadata, event: Complete | Expire) -> bool:
    is_owned = metadata.state is TxnState.ONGOING and metadata.round is not None
    return is_owned and event.owner_outcome is not Outcome.OPEN


def _refuse_for_round(metadata: TransactionMetadata, event: Event) -> None:
    if metadata.round is not None:
        raise InvalidTxnStateError(
            "A micro-batch owns this transaction, and only its round can end it: abort the round instead",
            **story(metadata, event),
        )


def _ensure(condition: bool, law: str, metadata: TransactionMetadata | None, event: Event) -> None:
    if not condition:
        ensure(False, law, **story(metadata, event))


def _owner_of(metadata: TransactionMetadata) -> str:
    """The owner of an open transaction, which always has one."""
    return cast(str, metadata.owner)
