"""Marks of the queries that have written into a database: rows of the tables `batches`, in addition to their batches.

A ledger that does not know a query, where a mark does, is not the query's. Spark may not have recorded the first batch,
and the url may name another schema than before, so a mark names the query, and those of all schemas count.
"""

from __future__ import annotations

from typing import Final

from oncelog_postgres.database import Database, name, text

_TABLES: Final = (
    "SELECT spaces.nspname FROM pg_class tables JOIN pg_namespace spaces ON spaces.oid = tables.relnamespace "
    "WHERE tables.relname = 'batches' AND has_schema_privilege(spaces.oid, 'USAGE') "
    "AND has_table_privilege(tables.oid, 'SELECT') AND (SELECT count(*) FROM pg_attribute columns WHERE "
    "columns.attrelid = tables.oid AND columns.attname IN ('attempt', 'prefix', 'table_name', 'row_count')) = 4"
)


def leave(database: Database, schema: str, prefix: str, query_id: str) -> None:
    """Mark a query, before its first batch becomes visible."""
    with database.transaction():
        database.run(
            text(
                "INSERT INTO {batches} (attempt, prefix, table_name, row_count) VALUES ({mark}, {prefix}, '', 0) "
                "ON CONFLICT (attempt) DO NOTHING",
                batches=name(schema, "batches"),
                mark=_mark(prefix, query_id),
                prefix=prefix,
            )
        )


def is_left(database: Database, prefix: str, query_id: str) -> bool:
    """Whether a query has decided batches under the prefix, by any schema of the database."""
    schemas = [str(schema) for (schema,) in database.rows(text(_TABLES))]
    look = "SELECT 1 FROM {batches} WHERE attempt = {mark}"
    mark = _mark(prefix, query_id)
    return any(database.rows(text(look, batches=name(schema, "batches"), mark=mark)) for schema in schemas)


def _mark(prefix: str, query_id: str) -> str:
    """In place of an attempt, which is a hexadecimal number."""
    return f"query {query_id} under {prefix}"
