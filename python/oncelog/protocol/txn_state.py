"""The states of a transactional id and the steps between them.

Owns the one table of legal transitions; the docs' drawing is made from it (docs/drawings.py).
It knows nothing of epochs, owners or events: `coordinator_core` decides which step to take, and takes it through
`transition`, so a step that is not in the table cannot be stored.

Source: Kafka's ``TransactionState.validPreviousStates`` with transactions version 2 (KIP-98, KIP-890 part 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from oncelog.errors import InvalidTxnStateError


class TxnState(StrEnum):
    """The state of a transactional id, with Kafka's names."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare_commit"
    PREPARE_ABORT = "prepare_abort"
    COMPLETE_COMMIT = "complete_commit"
    COMPLETE_ABORT = "complete_abort"
    PREPARE_EPOCH_FENCE = "prepare_epoch_fence"
    DEAD = "dead"


TRANSITIONS: Mapping[TxnState, frozenset[TxnState]] = MappingProxyType(
    {
        TxnState.EMPTY: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
        TxnState.ONGOING: frozenset(
            {TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT, TxnState.PREPARE_EPOCH_FENCE}
        ),
        TxnState.PREPARE_COMMIT: frozenset({TxnState.COMPLETE_COMMIT}),
        TxnState.PREPARE_ABORT: frozenset({TxnState.COMPLETE_ABORT}),
        TxnState.COMPLETE_COMMIT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
        TxnState.COMPLETE_ABORT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
        TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.PREPARE_ABORT}),
        TxnState.DEAD: frozenset(),
    }
)
"""From each state, the states that may follow. What leaves `DEAD` is the removal of the id, which is no state."""

COMPLETIONS: Mapping[TxnState, TxnState] = MappingProxyType(
    {TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT, TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT}
)
"""What a decided transaction becomes once nothing lists it any more."""

PENDING_ONLY = frozenset({TxnState.PREPARE_EPOCH_FENCE})
"""Passed through within one step, on the way from an open transaction to its abort by someone else; never stored."""


def transition(current: TxnState, target: TxnState) -> TxnState:
    """Return `target`, the state to go on with.

    Raises:
        InvalidTxnStateError: the table has no step from `current` to `target`; nothing changed.
    """
    if target not in TRANSITIONS[current]:
        raise InvalidTxnStateError("No such step between the states of a transactional id", state=current, step=target)
    return target


def pass_through(state: TxnState, *targets: TxnState) -> TxnState:
    """Take one `transition` after the other; returns the last of `targets`."""
    for target in targets:
        state = transition(state, target)
    return state
