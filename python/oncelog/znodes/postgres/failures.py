"""The meaning of each error of PostgreSQL for the caller. Only this module turns them into oncelog's errors.

Known by SQLSTATE or its class (the first two characters). A connection that is refused has none: there the server's
text counts, which is English on most servers; elsewhere the same errors come when the time is up.
"""

from __future__ import annotations

import re
from typing import Any, Final

from oncelog.errors import CorruptDataError, OncelogError, StoreAccessError, StoreUnavailableError


class NotNowError(Exception):
    """Nothing was written; ask again on another connection. This error never leaves the package (store.py)."""


class LostError(NotNowError):
    """The connection was lost. If it was to commit, that may have happened."""


CONNECTION_LOST: Final = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")
"""No connection, and all errors behind which the server hangs up: it shuts down, starts, or ended an idle session."""

NOT_NOW: Final = (
    "40",  # a serialization failure, a deadlock, or a conflict with recovery: another try may succeed
    "55P03",  # the lock was not free in time
    "57014",  # the statement took too long, or somebody cancelled it
    "53300",  # too many connections
    "53400",  # a limit of the configuration
    "25006",  # a server that only reads: another one is the primary now
    "0A000",  # the same, as it answers to the beginning of a transaction that writes
)

FULL: Final = ("53100", "53200")
"""Disk, or memory."""

NO_ACCESS: Final = ("28", "42501", "3D000")

GONE: Final = ("3F000", "42P01", "42703")
"""No such schema, table or column."""

DAMAGED: Final = ("XX001", "XX002", "22", "23")
"""Corrupt pages, and what no value that oncelog writes leads to."""

_REFUSED: Final = re.compile(
    "authentication failed|no pg_hba.conf entry|no password supplied|does not exist|permission denied|"
    "is not permitted|certificate|does not support SSL|no encryption"
)


def translated(sqlstate: str | None, reason: str, **about: Any) -> Exception:
    """The error of oncelog for an error of PostgreSQL.

    Args:
        sqlstate: its code; None if it came without any answer.
        reason: its text.
        about: fields for the error, without secrets.
    """
    code = sqlstate or "08"
    if code.startswith(CONNECTION_LOST):
        return LostError(reason)
    if code.startswith(NOT_NOW):
        return NotNowError(reason)
    if code.startswith(FULL):
        return StoreUnavailableError(
            "the disk or the memory of the PostgreSQL server is full, and nothing was written; make space there",
            reason=reason,
            **about,
        )
    if code.startswith(NO_ACCESS):
        return no_access(reason, **about)
    if code.startswith(GONE):
        return gone(reason, **about)
    if code.startswith(DAMAGED):
        return CorruptDataError(
            "the tables of the znode store are damaged, or are not oncelog's: restore them from a backup",
            reason=reason,
            **about,
        )
    return StoreUnavailableError(
        "PostgreSQL refused a request, and nothing was written", sqlstate=code, reason=reason, **about
    )


def refused(reason: str, **about: Any) -> Exception:
    """The error for a connection that was not made: final if the server's text says so."""
    return no_access(reason, **about) if refuses(reason) else LostError(reason)


def refuses(reason: str) -> bool:
    """Whether the text for a connection that was not made says that no later one will be made either."""
    return _REFUSED.search(reason) is not None


def no_access(reason: str, **about: Any) -> OncelogError:
    return StoreAccessError(
        "PostgreSQL denies this process access: check user and database in the URL, the password in PGPASSWORD or the "
        "password file, and the rights of the role, which needs CREATE on the database, or a schema of its own",
        reason=reason,
        **about,
    )


def gone(reason: str, **about: Any) -> OncelogError:
    return StoreAccessError(
        "the tables of the znode store were removed or changed while it was open; open the log again",
        reason=reason,
        **about,
    )
