"""Tables, drivers and queries of these tests, and a reader that shares no code with the sink."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import LedgerWorld
from oncelog_postgres import options as sink_options
from oncelog_postgres.batch_sink import PostgresTarget
from oncelog_postgres.columns import StagedColumn
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_postgres.staging import Copied, CopyTask, copy
from tests.support.servers.postgres import PostgresServer

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLANNED,
    PostgresCrashPoint.STAGED,
    PostgresCrashPoint.COPIED,
    PostgresCrashPoint.WRITTEN,
    PostgresCrashPoint.PREPARED,
    CrashPoint.ROUND_DECIDE,
)
"""The points that a batch passes once it is planned, up to its decision."""

BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    PostgresCrashPoint.COMMIT,
    PostgresCrashPoint.COMMITTED,
    PostgresCrashPoint.DROPPED,
    CrashPoint.SINK_DONE,
)
"""Those that it passes then."""

_numbers = itertools.count()


def new_table(server: PostgresServer, columns: str) -> str:
    """A new table with these columns; returns its name."""
    table = f"public.table_{next(_numbers)}"
    server.ask(f"CREATE TABLE {table} ({columns})")
    return table


def schema_of(url: str) -> str:
    """The schema of oncelog's own tables."""
    return url.partition("schema=")[2].partition("&")[0]


def left_staging(server: PostgresServer, url: str) -> list[str]:
    """The staging tables that there are."""
    tables = f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema_of(url)}' AND tablename LIKE 'staging%'"
    return [str(name) for (name,) in server.ask(tables)]


class ArrowJob:
    """Rows that tasks without Spark copy: two, each every other row."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._rows.schema)

    def run(self, planned: Sequence[StagedColumn], task: CopyTask) -> list[Copied]:
        rows = self._rows.select([column.source for column in planned])
        rows = rows.rename_columns([column.name for column in planned])
        shares = (rows.take(pa.array(range(at, len(rows), 2), pa.int64())) for at in (0, 1))
        tried = [copy(task, share.to_batches()) for share in shares]
        return [copied for copied in tried if copied is not None]


def keyed(*rows: tuple[int | None, str | None]) -> ArrowJob:
    """Rows with an `id` and a `value`."""
    ids, values = zip(*rows, strict=True) if rows else ((), ())
    return ArrowJob(pa.table({"id": pa.array(ids, pa.int32()), "value": pa.array(values, pa.string())}))


class PostgresWorld(LedgerWorld):
    """A table, and drivers that write into it.

    Args:
        columns: of the table.
        options: of the sink, beside those that it must have.
    """

    def __init__(self, folder: Path, server: PostgresServer, columns: str = "value text", **options: Any) -> None:
        super().__init__(folder)
        self.server = server
        self.url = server.url()
        self.prefix = f"{self.prefix}.{schema_of(self.url)}"  # the marks of a query count in all schemas
        self.table = new_table(server, columns)
        self.options = options

    def target(self) -> PostgresTarget:
        given = {"url": self.url, "table": self.table, **self.options}
        return PostgresTarget(self.store, sink_options.parse(given))

    def job(self, values: Sequence[str]) -> ArrowJob:
        return ArrowJob(pa.table({"value": pa.array(values, pa.string())}))

    def visible(self) -> list[str]:
        return [str(value) for (value,) in self.server.ask(f"SELECT value FROM {self.table}")]

    def found(self) -> list[tuple[object, ...]]:
        """All rows, in the order of their first column."""
        return self.server.ask(f"SELECT * FROM {self.table} ORDER BY 1")

    def left(self) -> list[str]:
        """The staging tables that there are."""
        return left_staging(self.server, self.url)
