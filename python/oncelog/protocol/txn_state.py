"""The states of a transactional id, and the transitions between them.

Owns the only table of legal transitions; the docs' diagram is made from it (docs/drawings.py). It knows nothing of
epochs, owners or events: `coordinator_core` decides on a transition, and makes it with `transition`, so one that is not
in the table cannot be stored.

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
"""The states that may follow each state. After `DEAD`, the id is removed."""

COMPLETIONS: Mapping[TxnState, TxnState] = MappingProxyType(
    {TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT, TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT}
)
"""The state that follows for a decided transaction once nothing lists it any more."""

PENDING_ONLY = frozenset({TxnState.PREPARE_EPOCH_FENCE})
"""States that are never stored: within one step, between an open transaction and its abort by someone else."""


def transition(current: TxnState, target: TxnState) -> TxnState:
    """Return `target` if it may follow `current`; otherwise raise an InvalidTxnStateError."""
    if target not in TRANSITIONS[current]:
        raise InvalidTxnStateError("No such step between the states of a transactional id", state=current, step=target)
    return target


def pass_through(state: TxnState, *targets: TxnState) -> TxnState:
    """Make one `transition` after the other; returns the last of `targets`."""
    for target in targets:
        state = transition(state, target)
    return state
