"""The meaning of each error of PostgreSQL for the caller. Only this module turns them into oncelog's errors.

Known by SQLSTATE or its class (the first two characters). A connection that is refused has none: there the server's
text counts, as for the znode store (oncelog.znodes.postgres.failures).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from oncelog.errors import CorruptDataError, InvalidRecordError, OncelogError, RoundAbortedError, UsageError
from oncelog.znodes.postgres.failures import refuses
from oncelog_postgres.errors import DatabaseAccessError, DatabaseUnavailableError, TableChangedError

NO_TABLE: Final = "42P01"

_TOO_MANY: Final = re.compile("too many (clients|connections)|connection slots are reserved|no more connections")
_OF_THE_DRIVER: Final = ("INVALID_ARGUMENT", "INVALID_DATA", "NOT_IMPLEMENTED")
"""The kinds of errors that ADBC's driver raises of a value, without a request to the server."""
_NO_ROOM: Final = re.compile("maximum number of prepared transactions")
_NO_TABLE: Final = re.compile(r"relation .* does not exist")


_LOST: Final = "the connection to the database was lost"
_ENDED: Final = "the server ended the transaction, which had waited for its client for too long"
_NO_CONNECTION: Final = (
    "the server has no room for another connection, and each task needs one: let fewer tasks run at a time, put a "
    "pooler in between, or raise max_connections or the limit of the role"
)
_NO_LOGIN: Final = (
    "the database denies this process access: check user and database in the url, the password in PGPASSWORD or the "
    "password file, and the rights of the role (docs/guides/postgres.md lists them)"
)
_REFUSED_ROW: Final = (
    "the table refuses a row of the batch, so nothing of the batch was written; correct the query, or the table"
)
_DAMAGED: Final = "the database reports that its own files are damaged; restore it from a backup"


class OvertakenError(DatabaseUnavailableError):
    """The database ended the transaction because of others; the same transaction may succeed now."""


class KeyTwiceError(InvalidRecordError):
    """Two rows of one statement have the same key."""


_TABLE_CHANGED: Final = (TableChangedError, "the table was removed or changed")

_MEANINGS: Final[Mapping[str, tuple[type[OncelogError], str]]] = {
    # by the longest beginning of the SQLSTATE that is here
    "08": (DatabaseUnavailableError, _LOST),
    "57P": (DatabaseUnavailableError, _LOST),  # the server shuts down or starts, or ended an idle session
    "25P03": (DatabaseUnavailableError, _ENDED),
    "25P04": (DatabaseUnavailableError, _ENDED),
    "25006": (
        DatabaseUnavailableError,
        "the database only reads: the server is a replica now, or was set to read only",
    ),
    "40": (
        OvertakenError,
        "the database ended the transaction because of others",
    ),  # a deadlock, a serialization failure
    "55P03": (
        OvertakenError,
        "a row or a table that the batch needs stayed locked by another transaction: see pg_locks whose it is, and "
        "give the sinks of one together the same url, so that they share a transaction",
    ),
    "57014": (OvertakenError, "the statement was cancelled: by an administrator, or by a time-out of the server"),
    "53": (
        DatabaseUnavailableError,
        "the database server has no room: its disk, its memory or another of its limits is full; make space there",
    ),
    "53300": (DatabaseUnavailableError, _NO_CONNECTION),
    "28": (DatabaseAccessError, _NO_LOGIN),
    "3D000": (DatabaseAccessError, "the server has no such database; correct the url, or create the database"),
    "42501": (
        DatabaseAccessError,
        "the database denies this process access: check the rights of the role (docs/guides/postgres.md lists them), "
        "and the table's policies for row security",
    ),
    "21000": (KeyTwiceError, "two rows of the batch have the same key; keep one of them"),
    "22": (InvalidRecordError, _REFUSED_ROW),
    "23": (InvalidRecordError, _REFUSED_ROW),
    "44": (InvalidRecordError, _REFUSED_ROW),
    "54": (InvalidRecordError, _REFUSED_ROW),  # a value is too long for an index
    "09": (InvalidRecordError, _REFUSED_ROW),  # this, and the next ones: a trigger failed
    "38": (InvalidRecordError, _REFUSED_ROW),
    "39": (InvalidRecordError, _REFUSED_ROW),
    "P0": (InvalidRecordError, _REFUSED_ROW),
    "0A": (
        UsageError,
        "PostgreSQL cannot write the batch into this table in this way, because of the table or its triggers; the "
        "reason says what it does not support. If that is PREPARE or COPY, leave transaction=task out",
    ),
    "XX001": (CorruptDataError, _DAMAGED),
    "XX002": (CorruptDataError, _DAMAGED),
    "3F000": _TABLE_CHANGED,  # no such schema, table or column
    "42P01": _TABLE_CHANGED,
    "42703": _TABLE_CHANGED,
    "42804": _TABLE_CHANGED,  # other types
    "42846": _TABLE_CHANGED,
    "42883": _TABLE_CHANGED,
    "42P10": _TABLE_CHANGED,  # no such unique index
    "42809": _TABLE_CHANGED,  # no table
    "428C9": _TABLE_CHANGED,  # a generated column
}


def translated(sqlstate: str | None, reason: str, **about: Any) -> OncelogError:
    """The error of oncelog for an error of a statement.

    Args:
        sqlstate: its code; None if there was no answer.
        reason: its text.
        about: fields for the error, without secrets.
    """
    code = sqlstate or "08000"
    for length in range(len(code), 1, -1):
        if code[:length] in _MEANINGS:
            kind, message = _MEANINGS[code[:length]]
            return kind(message, reason=reason, **about)
    return DatabaseUnavailableError("the database refused a request", sqlstate=code, reason=reason, **about)


def refused(reason: str, **about: Any) -> OncelogError:
    """The error for a connection that was not made: final if the server's text says so."""
    if refuses(reason):
        return DatabaseAccessError(_NO_LOGIN, reason=reason, **about)
    if _TOO_MANY.search(reason):
        return DatabaseUnavailableError(_NO_CONNECTION, reason=reason, **about)
    return DatabaseUnavailableError(
        "the database cannot be reached: no server answered, or none of them takes writes now", reason=reason, **about
    )


def of_copy(sqlstate: str | None, reason: str, *, status: str, has_place: bool, **about: Any) -> OncelogError:
    """The error of oncelog for an error of a task that copies rows.

    Args:
        sqlstate, reason: see `translated`.
        status: the kind of error, as ADBC names it.
        has_place: whether the task holds the staging table, and copies into another one.
        about: fields for the error.
    """
    reason = " ".join(reason.split())
    if sqlstate in (None, NO_TABLE) and _NO_TABLE.search(reason):
        return TableChangedError("the table was removed", **about) if has_place else staging_is_gone(**about)
    if _NO_ROOM.search(reason):  # the code is that of a server without memory
        return DatabaseUnavailableError(
            "the server has no room for another prepared transaction; raise max_prepared_transactions",
            reason=reason,
            **about,
        )
    if sqlstate is None and status in _OF_THE_DRIVER:
        return InvalidRecordError(
            "a task could not convert a row for PostgreSQL; correct the query", reason=reason, **about
        )
    return translated(sqlstate, reason, **about)


def staging_is_gone(**about: Any) -> RoundAbortedError:
    return RoundAbortedError(
        "the staging table of the batch is gone: the batch was aborted, or a newer driver took over", **about
    )
