"""What each error of kazoo means for the caller: the one place that turns them into oncelog's.

The table goes by the names of kazoo's classes, so that a release of kazoo that lacks one of them works as well; a test
holds it against the kazoo that is installed. An error that is not in it counts as no answer, which is always safe.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from oncelog.errors import CorruptDataError, InvariantViolation, StoreAccessError, StoreUnavailableError
from oncelog.znodes.errors import Refusal


class Meaning(Enum):
    """What an error says about the request."""

    NO_ANSWER = auto()
    """It may have been carried out or not, and this session will not tell any more."""

    NOT_DONE = auto()
    """It was not carried out, and may be asked again later."""

    FULL = auto()
    """It was not carried out: a quota is used up."""

    NO_ACCESS = auto()
    """It was not carried out: the servers do not let this client in."""

    FOREIGN = auto()
    """It was not carried out: somebody else put a znode of another kind there."""

    BY_ANOTHER = auto()
    """Of an operation in a multi: another operation failed."""

    BUG = auto()
    """It was not carried out, and nobody should ask for it."""


REFUSALS = {
    "NoNodeError": Refusal.NO_NODE,
    "NodeExistsError": Refusal.NODE_EXISTS,
    "BadVersionError": Refusal.BAD_VERSION,
    "NotEmptyError": Refusal.NOT_EMPTY,
}
"""The answers that a caller asks for."""

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
    # These name no cause, or one inside the server: it may have come before the request took effect, or after.
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
    """The session gave no answer and is of no more use. It never leaves this package (store.py)."""


def refusal_of(error: Exception) -> Refusal | None:
    """The condition that did not hold, if that is what the error says."""
    return REFUSALS.get(type(error).__name__)


def is_by_another(error: Exception) -> bool:
    """Whether an operation of a multi failed only because another one did."""
    return MEANINGS.get(type(error).__name__) is Meaning.BY_ANOTHER


def translated(error: Exception, **about: Any) -> Exception:
    """The error that says what the caller has to do.

    Args:
        error: of kazoo, and no refusal.
        about: what it concerns, without secrets.
    """
    name = type(error).__name__
    meaning = MEANINGS.get(name, Meaning.NO_ANSWER)
    match meaning:
        case Meaning.NO_ANSWER:
            return NoAnswerError(name if not str(error) else f"{name}: {error}")
        case Meaning.NOT_DONE:
            return StoreUnavailableError(
                "ZooKeeper cannot take requests now; nothing was written", reason=name, **about
            )
        case Meaning.FULL:
            return StoreUnavailableError(
                "a quota of ZooKeeper is used up and nothing was written; raise it, or free znodes", **about
            )
        case Meaning.NO_ACCESS:
            return StoreAccessError(
                "ZooKeeper does not let this client in: check auth= in the URL and the credentials that it names, and "
                "the servers' own configuration of them",
                reason=name,
                **about,
            )
        case Meaning.FOREIGN:
            return CorruptDataError("there is a znode that oncelog did not make: remove it", reason=name, **about)
        case Meaning.BY_ANOTHER | Meaning.BUG:
            return InvariantViolation(f"a request that ZooKeeper takes [{name}: {about}]")
