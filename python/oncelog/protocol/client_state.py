"""The states of a transactional producer in the client, and the calls that are legal in each.

Owns two tables: the transitions between states (those of Kafka's ``TransactionManager``, with KIP-939's prepared state)
and the calls that a user may make in each state. It must never call the coordinator: `after_error` says to which state
an error leads. The producer client is the only caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from oncelog.errors import (
    AbortableError,
    FatalError,
    IllegalStateTransitionError,
    OncelogError,
)


class ClientState(StrEnum):
    """The state of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in_transaction"
    PREPARED_TRANSACTION = "prepared_transaction"
    COMMITTING_TRANSACTION = "committing_transaction"
    ABORTING_TRANSACTION = "aborting_transaction"
    ABORTABLE_ERROR = "abortable_error"
    FATAL_ERROR = "fatal_error"


TRANSITIONS: Mapping[ClientState, frozenset[ClientState]] = MappingProxyType(
    {
        ClientState.UNINITIALIZED: frozenset({ClientState.INITIALIZING, ClientState.FATAL_ERROR}),
        ClientState.INITIALIZING: frozenset(
            {
                ClientState.READY,
                ClientState.PREPARED_TRANSACTION,
                ClientState.ABORTABLE_ERROR,
                ClientState.FATAL_ERROR,
            }
        ),
        ClientState.READY: frozenset(
            {ClientState.UNINITIALIZED, ClientState.IN_TRANSACTION, ClientState.FATAL_ERROR},
        ),
        ClientState.IN_TRANSACTION: frozenset(
            {
                ClientState.PREPARED_TRANSACTION,
                ClientState.COMMITTING_TRANSACTION,
                ClientState.ABORTING_TRANSACTION,
                ClientState.ABORTABLE_ERROR,
                ClientState.FATAL_ERROR,
            }
        ),
        ClientState.PREPARED_TRANSACTION: frozenset(
            {ClientState.COMMITTING_TRANSACTION, ClientState.ABORTING_TRANSACTION, ClientState.FATAL_ERROR}
        ),
        ClientState.COMMITTING_TRANSACTION: frozenset(
            {ClientState.INITIALIZING, ClientState.READY, ClientState.ABORTABLE_ERROR, ClientState.FATAL_ERROR}
        ),
        ClientState.ABORTING_TRANSACTION: frozenset(
            {ClientState.INITIALIZING, ClientState.READY, ClientState.FATAL_ERROR}
        ),
        ClientState.ABORTABLE_ERROR: frozenset(
            {
                ClientState.UNINITIALIZED,
                ClientState.ABORTING_TRANSACTION,
                ClientState.ABORTABLE_ERROR,
                ClientState.FATAL_ERROR,
            }
        ),
        ClientState.FATAL_ERROR: frozenset({ClientState.FATAL_ERROR}),
    }
)
"""The states that may follow each state. `FATAL_ERROR` may follow any state, and is final."""

LEGAL_CALLS: Mapping[ClientState, tuple[str, ...]] = MappingProxyType(
    {
        ClientState.UNINITIALIZED: ("init_transactions",),
        ClientState.INITIALIZING: ("init_transactions",),
        ClientState.READY: ("begin_transaction",),
        ClientState.IN_TRANSACTION: (
            "send",
            "send_batch",
            "flush",
            "send_offsets_to_transaction",
            "prepare_transaction",
            "commit_transaction",
            "abort_transaction",
        ),
        ClientState.PREPARED_TRANSACTION: ("commit_transaction", "abort_transaction", "complete_transaction"),
        ClientState.COMMITTING_TRANSACTION: ("commit_transaction", "complete_transaction"),
        ClientState.ABORTING_TRANSACTION: ("abort_transaction", "complete_transaction"),
        ClientState.ABORTABLE_ERROR: ("abort_transaction",),
        ClientState.FATAL_ERROR: (),
    }
)
"""The calls that a user may make in each state, in addition to ``close``, which is always legal.

While initializing, committing or aborting, it is the same call again, after a retriable error or an unknown outcome.
"""


def transition(current: ClientState, target: ClientState) -> ClientState:
    """Return `target` if it may follow `current`.

    Raises:
        IllegalStateTransitionError: it may not; the error names the legal calls.
    """
    if target not in TRANSITIONS[current]:
        raise _illegal(current, step=target)
    return target


def check_call(current: ClientState, call: str) -> None:
    """Raise an IllegalStateTransitionError, which names the legal calls, if `current` does not allow this one."""
    if call not in LEGAL_CALLS[current]:
        raise _illegal(current, call=call)


def after_error(current: ClientState, error: Exception) -> ClientState:
    """Return the state of a producer after a call, or a send in the background, ended with `error`.

    After an abortable error, the open transaction can only be aborted. The state stays the same if the transaction is
    already being aborted, is prepared, or does not exist. It also stays after a retriable error, an unknown outcome or
    a wrong call: the user may call again. After any other error the producer's state is unknown, and so it is fatal.
    """
    if isinstance(error, FatalError) or not isinstance(error, OncelogError):
        return ClientState.FATAL_ERROR
    if isinstance(error, AbortableError) and ClientState.ABORTABLE_ERROR in TRANSITIONS[current]:
        return ClientState.ABORTABLE_ERROR
    return current


def _illegal(current: ClientState, **attempt: str) -> IllegalStateTransitionError:
    legal = ", ".join((*LEGAL_CALLS[current], "close"))
    return IllegalStateTransitionError(
        "The producer's state does not allow this; make one of the legal calls", state=current, **attempt, legal=legal
    )
