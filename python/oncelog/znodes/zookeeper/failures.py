"""The meaning of each error of kazoo for the caller. Only this module turns them into oncelog's errors.

The table has the names of kazoo's classes, so that it also works with a release of kazoo that lacks some of them; a
test compares it with the installed kazoo. An error that is not in the table counts as no answer, which is always safe.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from oncelog.errors import CorruptDataError, InvariantViolation, StoreAccessError, StoreUnavailableError
from oncelog.znodes.errors import Refusal


class Meaning(Enum):
    """What an error says about the request."""

    NO_ANSWER = auto()
    """It may or may not have been applied, and this session will never tell."""

    NOT_DONE = auto()
    """It was not applied, and may be sent again later."""

    FULL = auto()
    """It was not applied: a quota is used up."""

    NO_ACCESS = auto()
    """It was not applied: the servers deny this client access."""

    FOREIGN = auto()
    """It was not applied: another program created a znode of another kind there."""

    BY_ANOTHER = auto()
    """This operation of a multi was not applied because another one failed."""

    BUG = auto()
    """It was not applied, and should never be sent."""


REFUSALS = {
    "NoNodeError": Refusal.NO_NODE,
    "NodeExistsError": Refusal.NODE_EXISTS,
    "BadVersionError": Refusal.BAD_VERSION,
    "NotEmptyError": Refusal.NOT_EMPTY,
}
"""The errors that callers expect: conditions of operations."""

MEANINGS = {
    "KazooTimeoutError": Meaning.NO_ANSWER,
    "ConnectionLoss": Meaning.NO_ANSWER,
    "ConnectionClosedError": Meaning.NO_ANSWER,
    "ConnectionDropped": Meaning.NO_ANSWER,
    "SessionExpiredError": Meaning.NO_ANSWER,
    "SessionMovedError": Meaning.NO_ANSWER,
    "UnknownSessionError": Meaning.NO_ANSWER,
    "OperationTimeoutError": Meaning.NO_ANSWER,
    "RequestTimeoutError": Meaning.NO_ANSWER,
    "CancelledError": Meaning.NO_ANSWER,
    "ZookeeperStoppedError": Meaning.NO_ANSWER,
    "RetryFailedError": Meaning.NO_ANSWER,
    "ForceRetryError": Meaning.NO_ANSWER,
    "InterruptedError": Meaning.NO_ANSWER,
    # These have no cause, or one inside the server: they may come before or after the request was applied.
    "KazooException": Meaning.NO_ANSWER,
    "ZookeeperError": Meaning.NO_ANSWER,
    "SystemZookeeperError": Meaning.NO_ANSWER,
    "APIError": Meaning.NO_ANSWER,
    "DataInconsistency": Meaning.NO_ANSWER,
    "MarshallingError": Meaning.NO_ANSWER,
    "ThrottledOpError": Meaning.NOT_DONE,
    "NotReadOnlyCallError": Meaning.NOT_DONE,
    "NewConfigNoQuorumError": Meaning.NOT_DONE,
    "ReconfigInProcessError": Meaning.NOT_DONE,
    "QuotaExceededError": Meaning.FULL,
    "NoAuthError": Meaning.NO_ACCESS,
    "AuthFailedError": Meaning.NO_ACCESS,
    "InvalidACLError": Meaning.NO_ACCESS,
    "SASLException": Meaning.NO_ACCESS,
    "SessionClosedRequireSaslError": Meaning.NO_ACCESS,
    "NoChildrenForEphemeralsError": Meaning.FOREIGN,
    "RolledBackError": Meaning.BY_ANOTHER,
    "RuntimeInconsistency": Meaning.BY_ANOTHER,
    "BadArgumentsError": Meaning.BUG,
    "UnimplementedError": Meaning.BUG,
    "ConfigurationError": Meaning.BUG,
    "InvalidCallbackError": Meaning.BUG,
    "NoWatcherError": Meaning.BUG,
    "EphemeralOnLocalSessionError": Meaning.BUG,
    "ReconfigDisabledError": Meaning.BUG,
    "LockTimeout": Meaning.BUG,
    "WriterNotClosedException": Meaning.BUG,
}


class NoAnswerError(Exception):
    """The session gave no answer and cannot be used any more. This error never leaves the package (store.py)."""


def refusal_of(error: Exception) -> Refusal | None:
    """The condition that did not hold, if this is such an error."""
    return REFUSALS.get(type(error).__name__)


def is_by_another(error: Exception) -> bool:
    """Whether an operation of a multi failed only because another one did."""
    return MEANINGS.get(type(error).__name__) is Meaning.BY_ANOTHER


def translated(error: Exception, **about: Any) -> Exception:
    """The error of oncelog for an error of kazoo that is not a refusal.

    Args:
        about: fields for the error, without secrets.
    """
    name = type(error).__name__
    meaning = MEANINGS.get(name, Meaning.NO_ANSWER)
    match meaning:
        case Meaning.NO_ANSWER:
            return NoAnswerError(name if not str(error) else f"{name}: {error}")
        case Meaning.NOT_DONE:
            return StoreUnavailableError(
                "ZooKeeper cannot handle requests now; nothing was written", reason=name, **about
            )
        case Meaning.FULL:
            return StoreUnavailableError(
                "a ZooKeeper quota is used up, and nothing was written; raise it, or remove znodes", **about
            )
        case Meaning.NO_ACCESS:
            return StoreAccessError(
                "ZooKeeper denies this client access: check auth= in the URL, the credentials, and the servers' "
                "configuration",
                reason=name,
                **about,
            )
        case Meaning.FOREIGN:
            return CorruptDataError("there is a znode that oncelog did not create: remove it", reason=name, **about)
        case Meaning.BY_ANOTHER | Meaning.BUG:
            return InvariantViolation(f"oncelog only sends requests that ZooKeeper accepts [{name}: {about}]")
