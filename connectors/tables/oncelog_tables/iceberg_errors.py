"""What pyiceberg and the clients of catalogs raise, as oncelog's errors: whose class says what the caller does next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyiceberg import exceptions

from oncelog.errors import OncelogError, UsageError
from oncelog_tables.errors import TableUnavailableError

_MISSING: Final = (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError)

_DENIED: Final = (
    exceptions.UnauthorizedError,
    exceptions.ForbiddenError,
    exceptions.AuthorizationExpiredError,
    exceptions.OAuthError,
    exceptions.SignError,
    PermissionError,
)

_UNREACHABLE: Final = (
    exceptions.ServiceUnavailableError,
    exceptions.ServerError,
    exceptions.TooManyRequestsError,
    exceptions.CommitStateUnknownException,
    exceptions.WaitingForLockException,
    OSError,  # sockets, time-outs, pyarrow's file systems, and all that the package requests raises
)

_UNREACHABLE_BY_NAME: Final = frozenset({"OperationalError", "TTransportException", "HTTPClientError"})
"""The same in packages that need not be installed: SQLAlchemy's, Thrift's (Hive) and botocore's (Glue, DynamoDB)."""

_REFUSED: Final = (
    exceptions.BadRequestError,
    exceptions.NotInstalledError,
    exceptions.NoSuchPropertyException,
    exceptions.ResolveError,
    exceptions.ValidationError,
    exceptions.ValidationException,
    ImportError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)


@contextmanager
def translated(table: str) -> Iterator[None]:
    """Raise oncelog's errors instead of pyiceberg's; a commit that others overtook is left as it is."""
    try:
        yield
    except (OncelogError, exceptions.CommitFailedException):
        raise
    except Exception as problem:  # each catalog's client has errors of its own
        raise _error_of(problem, table) from problem


def _error_of(problem: Exception, table: str) -> OncelogError:
    reason = line(problem) if isinstance(problem, _MISSING) else f"{type(problem).__name__}: {line(problem)}"
    kind, message = _meaning(problem)
    return kind(message, table=table, reason=reason)


def _meaning(problem: Exception) -> tuple[type[OncelogError], str]:
    if isinstance(problem, _MISSING):
        return UsageError, "the catalog has no such table; create it, or correct the options table and catalog"
    if isinstance(problem, _DENIED):
        return TableUnavailableError, "the table's catalog or storage denies access; check the credentials"
    if isinstance(problem, FileNotFoundError):
        return TableUnavailableError, "a file of the table or of its catalog is missing"
    names = {kind.__name__ for kind in type(problem).__mro__}
    if isinstance(problem, _UNREACHABLE) or names & _UNREACHABLE_BY_NAME:
        return TableUnavailableError, "the table's catalog or storage cannot be reached now"
    if isinstance(problem, _REFUSED):
        return UsageError, "pyiceberg cannot use the catalog or the table; correct what the reason names"
    return TableUnavailableError, "pyiceberg, or the client of the table's catalog, failed"


def line(problem: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(problem).split())
