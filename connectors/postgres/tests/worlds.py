"""Tables and queries of these tests, and a reader that shares no code with the sink."""

from __future__ import annotations

import itertools

from tests.support.servers.postgres import PostgresServer

_numbers = itertools.count()


def new_table(server: PostgresServer, columns: str, *, name: str | None = None, kind: str = "") -> str:
    """A new table with these columns; returns its name."""
    table = name or f"public.table_{next(_numbers)}"
    server.ask(f"CREATE {kind} TABLE {table} ({columns})")
    return table


def schema_of(url: str) -> str:
    """The schema of oncelog's own tables."""
    return url.partition("schema=")[2].partition("&")[0]


def left_staging(server: PostgresServer, url: str) -> list[str]:
    """The staging tables that there are."""
    tables = f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema_of(url)}' AND tablename LIKE 'staging%'"
    return [str(name) for (name,) in server.ask(tables)]
