"""The settings of a transaction that oncelog relies on, whatever server, database and role say.

They are set again in each transaction of the driver and of a task, because a pooler lends the connection to others in
between. Settings by which PostgreSQL reads a text (DateStyle, TimeZone, ...) stay as the role has them: they are the
administrator's decision, as for any other client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, LiteralString

IDLE_AT_MOST_MS: Final = 60_000
"""How long a transaction may wait for its client before the server ends it. Until then it locks the rows that it would
insert, and its client may be gone without a sign."""

_DURABLE: Final = "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END"
"""A commit is acknowledged when the server's disk, and the replicas that it waits for, have it."""

_PINNED: Final[Mapping[LiteralString, LiteralString]] = {
    "synchronous_commit": _DURABLE,
    "statement_timeout": "'0'",  # a batch takes as long as it does; stalls.py notices a server that does not respond
    "transaction_timeout": "'0'",  # since PostgreSQL 17
    "idle_in_transaction_session_timeout": f"'{IDLE_AT_MOST_MS}'",
    "row_security": "'on'",
    "array_nulls": "'on'",
}

BEGIN: Final[LiteralString] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

BEGUN: Final[LiteralString] = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"
"""The same in a transaction that has begun, before its first statement."""


def pinned(**more_ms: int) -> LiteralString:
    """The statement that sets them until the end of the transaction.

    Args:
        more_ms: further ones, all of them time-outs.
    """
    settings = {**_PINNED, **{name: f"'{value:d}'" for name, value in more_ms.items()}}
    rows = ", ".join(f"('{name}', {value})" for name, value in settings.items())
    return (
        f"SELECT set_config(name, value, true) FROM (VALUES {rows}) AS pinned(name, value) "
        "WHERE current_setting(name, true) IS NOT NULL"
    )
