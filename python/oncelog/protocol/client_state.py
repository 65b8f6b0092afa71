"""The states of a transactional producer on the client's side, and which call is legal in which.

Owns two tables: the steps between states (those of Kafka's ``TransactionManager``, with KIP-939's prepared state) and
the calls a user may make in each state. It must never talk to the coordinator: what the coordinator answers comes
back as an error, and `after_error` says which state it leads to. The producer client is the only caller.
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
    """Where a transactional producer stands."""

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
"""From each state, the states that may follow. `FATAL_ERROR` is reached from everywhere and never left."""

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
"""The calls a user may make in each state, besides ``close``, which is always legal.

In the three states on the way to an answer (initializing, committing, aborting) it is the call that is under way:
when it ended with a retriable error or an unknown outcome, the same call again is the way on.
"""


def transition(current: ClientState, target: ClientState) -> ClientState:
    """Return `target`, the state to go on with.

    Raises:
        IllegalStateTransitionError: the table has no such step; nothing changed. The text names the legal calls.
    """
    if target not in TRANSITIONS[current]:
        raise _illegal(current, step=target)
    return target


def check_call(current: ClientState, call: str) -> None:
    """Refuse a call that `current` does not allow.

    Raises:
        IllegalStateTransitionError: nothing changed. The text names the legal calls.
    """
    if call not in LEGAL_CALLS[current]:
        raise _illegal(current, call=call)


def after_error(current: ClientState, error: Exception) -> ClientState:
    """Return the state a producer is in after a call, or a send behind it, ended with `error`.

    An abortable error poisons the open transaction; where none can be poisoned (it is being aborted already, is
    prepared, or does not exist) the state stays. A retriable error, an unknown outcome and a wrong call change
    nothing: the same call again, or a right one, is the way on. Anything that is not oncelog's own leaves a producer
    whose state nobody knows, hence fatal.
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
