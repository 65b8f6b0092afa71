"""The meaning of each error of PostgreSQL for the caller. Only this module turns them into oncelog's errors.

Known by SQLSTATE or its class (the first two characters). A connection that is refused has none: there the server's
text counts, as for the znode store (oncelog.znodes.postgres.failures).
"""

from __future__ import annotations

import re
from typing import Any, Final

from oncelog.errors import InvalidRecordError, OncelogError, RoundAbortedError
from oncelog.znodes.postgres.failures import CONNECTION_LOST, FULL, GONE, NO_ACCESS, refuses
from oncelog_postgres.errors import DatabaseAccessError, DatabaseUnavailableError, TableChangedError

OVERTAKEN: Final = ("40", "55P03", "57014")
"""A deadlock, a serialization failure, a lock that was not free in time, or a statement that somebody cancelled."""

REFUSED_ROW: Final = ("22", "23", "44", "P0001")
"""A value that does not fit, a broken constraint, and what triggers raise."""

CHANGED: Final = (*GONE, "42804", "42846", "42883", "42P10", "42809", "428C9")
"""Also: other types, no such unique index, no table, a generated column."""

NULL_BYTE: Final = "22021"

NO_TABLE: Final = "42P01"

KEY_TWICE: Final = "21000"

_COLUMN: Final = re.compile(r"^CONTEXT: .*, column (.+?)(?:: .*)?$", re.MULTILINE)
_NO_ROOM: Final = re.compile("maximum number of prepared transactions")
_NO_TABLE: Final = re.compile(r"relation .* does not exist")


class OvertakenError(DatabaseUnavailableError):
    """The database ended the transaction because of others; the same transaction may succeed now."""


class KeyTwiceError(InvalidRecordError):
    """Two rows of one statement have the same key."""


def translated(sqlstate: str | None, reason: str, **about: Any) -> OncelogError:
    """The error of oncelog for an error of a statement.

    Args:
        sqlstate: its code; None if there was no answer.
        reason: its text.
        about: fields for the error, without secrets.
    """
    code = sqlstate or "08"
    if code.startswith(CONNECTION_LOST):
        return DatabaseUnavailableError("the connection to the database was lost", reason=reason, **about)
    if code.startswith(OVERTAKEN):
        return OvertakenError("the database ended the transaction because of others", reason=reason, **about)
    if code.startswith(FULL):
        return DatabaseUnavailableError(
            "the disk or the memory of the database server is full; make space there", reason=reason, **about
        )
    if code.startswith(NO_ACCESS):
        return denied(reason, **about)
    if code == KEY_TWICE:
        return KeyTwiceError("two rows of the batch have the same key; keep one of them", reason=reason, **about)
    if code.startswith(REFUSED_ROW):
        return InvalidRecordError(
            "the table refuses a row of the batch, so nothing of the batch was written; correct the query, or the "
            "table",
            reason=reason,
            **about,
        )
    if code.startswith(CHANGED):
        return TableChangedError("the table was removed or changed", reason=reason, **about)
    return DatabaseUnavailableError("the database refused a request", sqlstate=code, reason=reason, **about)


def refused(reason: str, **about: Any) -> OncelogError:
    """The error for a connection that was not made: final if the server's text says so."""
    if refuses(reason):
        return denied(reason, **about)
    return DatabaseUnavailableError(
        "the database cannot be reached: no server answered, or none of them takes writes now", reason=reason, **about
    )


def denied(reason: str, **about: Any) -> OncelogError:
    return DatabaseAccessError(
        "the database denies this process access: check user and database in the url, the password in PGPASSWORD or "
        "the password file, and the rights of the role (docs/guides/postgres.md lists them)",
        reason=reason,
        **about,
    )


def of_copy(sqlstate: str | None, reason: str, *, has_place: bool, **about: Any) -> OncelogError:
    """The error of oncelog for an error of a task that copies rows.

    Args:
        sqlstate, reason: see `translated`.
        has_place: whether it holds the staging table, and copies into another one.
        about: fields for the error.
    """
    if sqlstate in (None, NO_TABLE) and _NO_TABLE.search(reason):
        return TableChangedError("the table was removed", **about) if has_place else staging_is_gone(**about)
    if _NO_ROOM.search(reason):  # the code is that of a server without memory
        return DatabaseUnavailableError(
            "the server has no room for another prepared transaction; raise max_prepared_transactions",
            reason=" ".join(reason.split()),
            **about,
        )
    if sqlstate == NULL_BYTE:
        return InvalidRecordError(
            "a text contains a null byte, which PostgreSQL cannot store; take it out, or write the column as binary "
            "into one of type bytea",
            column=_column(reason),
            **about,
        )
    return translated(sqlstate, " ".join(reason.split()), **about)


def staging_is_gone(**about: Any) -> RoundAbortedError:
    return RoundAbortedError(
        "the staging table of the batch is gone: the batch was aborted, or a newer driver took over", **about
    )


def _column(reason: str) -> str | None:
    found = _COLUMN.search(reason)
    return None if found is None else found[1]
