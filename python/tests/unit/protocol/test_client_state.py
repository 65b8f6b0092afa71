"""The states of a transactional producer: its steps, its calls, and what an error makes of it."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog import errors
from oncelog.errors import IllegalStateTransitionError
from oncelog.protocol.client_state import LEGAL_CALLS, TRANSITIONS, ClientState, after_error, check_call, transition

(
    UNINITIALIZED,
    INITIALIZING,
    READY,
    IN_TRANSACTION,
    PREPARED_TRANSACTION,
    COMMITTING_TRANSACTION,
    ABORTING_TRANSACTION,
    ABORTABLE_ERROR,
    FATAL_ERROR,
) = ClientState

# Kafka's side of the same table: which states may come before.
VALID_PREVIOUS_STATES = {
    UNINITIALIZED: {READY, ABORTABLE_ERROR},
    INITIALIZING: {UNINITIALIZED, COMMITTING_TRANSACTION, ABORTING_TRANSACTION},
    READY: {INITIALIZING, COMMITTING_TRANSACTION, ABORTING_TRANSACTION},
    IN_TRANSACTION: {READY},
    PREPARED_TRANSACTION: {IN_TRANSACTION, INITIALIZING},
    COMMITTING_TRANSACTION: {IN_TRANSACTION, PREPARED_TRANSACTION},
    ABORTING_TRANSACTION: {IN_TRANSACTION, PREPARED_TRANSACTION, ABORTABLE_ERROR},
    ABORTABLE_ERROR: {IN_TRANSACTION, COMMITTING_TRANSACTION, ABORTABLE_ERROR, INITIALIZING},
    FATAL_ERROR: set(ClientState),
}

# Where each call leads at once, before any answer; calls that stay where they are lead nowhere.
FIRST_STEP = {
    "init_transactions": {INITIALIZING},
    "begin_transaction": {IN_TRANSACTION},
    "prepare_transaction": {PREPARED_TRANSACTION},
    "commit_transaction": {COMMITTING_TRANSACTION},
    "abort_transaction": {ABORTING_TRANSACTION},
    "complete_transaction": {COMMITTING_TRANSACTION, ABORTING_TRANSACTION},
}


@pytest.mark.parametrize(("current", "target"), list(product(ClientState, ClientState)))
def test_a_step_is_legal_exactly_where_kafka_names_the_previous_state(
    current: ClientState, target: ClientState
) -> None:
    if current in VALID_PREVIOUS_STATES[target]:
        assert transition(current, target) is target
    else:
        with pytest.raises(IllegalStateTransitionError):
            transition(current, target)


@pytest.mark.parametrize("current", ClientState)
def test_a_legal_call_has_a_legal_first_step_or_is_under_way(current: ClientState) -> None:
    for call in LEGAL_CALLS[current]:
        targets = FIRST_STEP.get(call, {current})
        assert current in targets or targets <= TRANSITIONS[current], call


@pytest.mark.parametrize("current", ClientState)
def test_a_call_is_refused_where_it_is_not_legal_and_the_text_names_the_legal_ones(current: ClientState) -> None:
    every_call = {call for calls in LEGAL_CALLS.values() for call in calls}

    for call in every_call - set(LEGAL_CALLS[current]):
        with pytest.raises(IllegalStateTransitionError) as refused:
            check_call(current, call)
        for legal in (*LEGAL_CALLS[current], "close"):
            assert legal in str(refused.value)
    for call in LEGAL_CALLS[current]:
        check_call(current, call)


def test_commit_before_init_says_to_call_init_transactions() -> None:
    with pytest.raises(IllegalStateTransitionError, match="init_transactions"):
        transition(UNINITIALIZED, COMMITTING_TRANSACTION)


def test_a_prepared_transaction_takes_no_more_writes() -> None:
    """conformance: 55."""
    for call in ("send", "send_batch", "send_offsets_to_transaction"):
        with pytest.raises(IllegalStateTransitionError):
            check_call(PREPARED_TRANSACTION, call)


@pytest.mark.parametrize("error", [errors.ProducerFencedError, errors.InvalidTxnStateError, errors.CorruptDataError])
@pytest.mark.parametrize("current", ClientState)
def test_a_fatal_error_leads_to_fatal_from_every_state(current: ClientState, error: type[errors.OncelogError]) -> None:
    assert after_error(current, error("x")) is FATAL_ERROR


@pytest.mark.parametrize("bug", [errors.InvariantViolation("x"), RuntimeError("x")])
def test_an_error_that_is_not_ours_is_fatal_since_nobody_knows_what_happened(bug: Exception) -> None:
    assert after_error(IN_TRANSACTION, bug) is FATAL_ERROR


@pytest.mark.parametrize(
    ("current", "after"),
    [
        (IN_TRANSACTION, ABORTABLE_ERROR),
        (COMMITTING_TRANSACTION, ABORTABLE_ERROR),
        (INITIALIZING, ABORTABLE_ERROR),
        (ABORTABLE_ERROR, ABORTABLE_ERROR),
        (ABORTING_TRANSACTION, ABORTING_TRANSACTION),
        (PREPARED_TRANSACTION, PREPARED_TRANSACTION),
        (READY, READY),
        (UNINITIALIZED, UNINITIALIZED),
        (FATAL_ERROR, FATAL_ERROR),
    ],
)
def test_an_abortable_error_poisons_the_open_transaction_and_nothing_else(
    current: ClientState, after: ClientState
) -> None:
    assert after_error(current, errors.TransactionAbortableError("x")) is after


@pytest.mark.parametrize(
    "error", [errors.ConcurrentTransactionsError, errors.OutcomeUnknownError, errors.InvalidOptionError]
)
@pytest.mark.parametrize("current", ClientState)
def test_a_retriable_unknown_or_usage_error_changes_nothing(
    current: ClientState, error: type[errors.OncelogError]
) -> None:
    assert after_error(current, error("x")) is current
