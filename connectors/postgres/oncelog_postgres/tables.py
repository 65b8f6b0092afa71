"""What the database knows about the table that rows go to, and oncelog's own tables.

The schema of oncelog (`oncelog`, unless the url names another one) has a table `batches`: which batches are in their
tables, by the attempts that wrote them. The same schema has the staging tables of attempts that are under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog.errors import UsageError
from oncelog_postgres.database import Database, name, text
from oncelog_postgres.kept import Kept
from oncelog_postgres.options import TableName

BATCHES_KEPT: Final = 8
"""Rows of `batches` that are kept for each prefix. Only the newest one is needed; the others are for people to see."""

_CREATING: Final = 0x6F6E6370
""""oncp", the advisory lock of those who create tables."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type: as SQL names it.
        base: the type's name without length or precision, and with the schema if that is not pg_catalog; for a domain,
            and for an array of one, that of the type below it.
        exact: the same with length or precision.
        scale: of a numeric: the digits after the point; None without a limit.
        kept: what it keeps of a value.
        is_nullable: whether it may be without a value.
        is_required: whether a row must bring a value.
        is_computed: whether a row must bring none.
    """

    name: str
    type: str
    base: str
    exact: str
    scale: int | None
    kept: Kept
    is_nullable: bool
    is_required: bool
    is_computed: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table of PostgreSQL.

    Attributes:
        name: with its schema.
        columns: in their order.
        keys: the columns of each unique index that an upsert can go by.
    """

    name: TableName
    columns: tuple[TableColumn, ...]
    keys: tuple[frozenset[str], ...]


_TABLE: Final = (
    "SELECT c.oid, n.nspname, c.relname, c.relkind::text, "
    "c.relpersistence = 'u' OR COALESCE(bool_or(part.relpersistence = 'u'), false), "
    "c.relkind = 'f' OR COALESCE(bool_or(part.relkind = 'f'), false) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "LEFT JOIN pg_partition_tree(c.oid) tree ON true LEFT JOIN pg_class part ON part.oid = tree.relid "
    "WHERE c.oid = to_regclass({table}) GROUP BY c.oid, n.nspname"
)

_COLUMNS: Final = (
    "WITH RECURSIVE base AS ("
    "SELECT attnum, atttypid AS type, atttypmod AS modifier, '' AS brackets FROM pg_attribute "
    "WHERE attrelid = {table} AND attnum > 0 AND NOT attisdropped "
    "UNION ALL SELECT attnum, CASE typtype WHEN 'd' THEN typbasetype ELSE typelem END, "
    "CASE typtype WHEN 'd' THEN typtypmod ELSE modifier END, CASE typtype WHEN 'd' THEN brackets ELSE '[]' END "
    "FROM base JOIN pg_type t ON t.oid = type WHERE typtype = 'd' OR (typcategory = 'A' AND brackets = '')) "
    "SELECT attname, format_type(atttypid, atttypmod), format_type(base.type, -1) || brackets, "
    "format_type(base.type, modifier) || brackets, base.modifier, "
    "NOT (attnotnull OR t.typnotnull), attnotnull AND NOT atthasdef AND attidentity = '' AND t.typdefault IS NULL, "
    "attgenerated <> '' OR attidentity = 'a' "
    "FROM base JOIN pg_attribute a USING (attnum) JOIN pg_type t ON t.oid = atttypid "
    "JOIN pg_type below ON below.oid = base.type "
    "WHERE attrelid = {table} AND below.typtype <> 'd' AND (below.typcategory <> 'A' OR brackets = '[]') "
    "ORDER BY attnum"
)
"""The type below a domain, and of the elements of an array, is found step by step. With -1, format_type writes a name
that means a type without a length, also where SQL's own name, such as bit, has one by default."""

_KEYS: Final = (
    "SELECT array_agg(attname::text) FROM pg_index i "
    "JOIN pg_attribute a ON attrelid = indrelid AND attnum = ANY((indkey::int2[])[0:indnkeyatts - 1]) "
    "WHERE indrelid = {table} AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL "
    "GROUP BY indexrelid"
)

_PROBLEMS: Final = {
    "v": "it is a view",
    "m": "it is a materialised view",
    "S": "it is a sequence",
    "i": "it is an index",
    "I": "it is an index",
    "c": "it is a type",
}


def describe(database: Database, table: TableName) -> Table:
    """What the database says of a table.

    Raises:
        UsageError: there is none of that name, or it cannot keep a batch.
    """
    with database.transaction():
        return _described(database, table)


def _described(database: Database, table: TableName) -> Table:
    found = database.rows(text(_TABLE, table=str(table)))
    if not found:
        raise UsageError(
            "the database has no such table, or this role may not use its schema; create it, or correct the option "
            "table",
            table=str(table),
            database=str(database.address),
        )
    ((oid, schema, relation, kind, is_unlogged, is_foreign),) = found
    named = TableName(schema, relation)
    problem = _PROBLEMS.get(kind)
    if is_unlogged:
        problem = "it, or a part of it, is UNLOGGED, so a crash of the server empties it; ALTER TABLE ... SET LOGGED"
    if is_foreign:
        problem = "it, or a part of it, is a foreign table, which another server commits by itself"
    if problem is not None:
        raise UsageError("the sink cannot write into this table", table=str(named), reason=problem)
    database.run(text("SET LOCAL search_path TO pg_catalog"))  # all other types are named with their schema
    columns = tuple(
        TableColumn(column, kind, base, exact, _scale(base, modifier), _kept(kind, base, modifier), *whether)
        for column, kind, base, exact, modifier, *whether in database.rows(text(_COLUMNS, table=oid))
    )
    keys = tuple(frozenset(names) for (names,) in database.rows(text(_KEYS, table=oid)))
    return Table(named, columns, keys)


def _scale(base: str, modifier: int) -> int | None:
    if base.removesuffix("[]") != "numeric" or modifier < 0:
        return None
    low = (modifier - 4) & 0x7FF  # 11 bits, signed since PostgreSQL 15
    return low - 0x800 if low >= 0x400 else low


def _kept(kind: str, base: str, modifier: int) -> Kept:
    element = base.removesuffix("[]")
    if modifier >= 0 and element.startswith("timestamp"):
        return Kept(kind, digits=modifier)
    if modifier >= 0 and element == "character varying":
        return Kept(kind, length=modifier - 4)
    return Kept(kind)


def check_key(table: Table, key_columns: tuple[str, ...]) -> None:
    """Refuse an upsert by columns of which PostgreSQL does not keep the values apart."""
    if frozenset(key_columns) not in table.keys:
        raise UsageError(
            "the table has no primary key and no unique index of exactly these columns, by which rows could be "
            "replaced; create one, or correct keyColumns",
            keyColumns=list(key_columns),
            table=str(table.name),
            unique=[sorted(key) for key in table.keys],
        )


def ensure_batches(database: Database, schema: str) -> None:
    """Create the table `batches`, and its schema, if they are missing. Many processes may do so at a time.

    Raises:
        UsageError: the server does not keep what it acknowledges.
    """
    look = (
        "SELECT to_regclass({table}) IS NOT NULL, to_regnamespace({schema}) IS NOT NULL, "
        "current_setting('fsync') = 'on' OR current_setting('synchronous_standby_names') <> ''"
    )
    ((has_table, has_schema, is_durable),) = database.rows(text(look, table=f"{schema}.batches", schema=schema))
    if not is_durable:
        raise UsageError(
            "the server runs with fsync=off, so a crash would lose batches that were acknowledged; switch fsync on",
            database=str(database.address),
        )
    if has_table:
        return
    with database.transaction():
        database.rows(text("SELECT pg_advisory_xact_lock({lock})", lock=_CREATING))
        if not has_schema:  # even IF NOT EXISTS asks for the right to create one
            database.run(text("CREATE SCHEMA IF NOT EXISTS {schema}", schema=name(schema)))
        database.run(
            text(
                "CREATE TABLE IF NOT EXISTS {batches} (attempt text PRIMARY KEY, prefix text NOT NULL, "
                "number bigint GENERATED ALWAYS AS IDENTITY, table_name text NOT NULL, row_count bigint NOT NULL, "
                "committed_at timestamptz NOT NULL DEFAULT now(), UNIQUE (prefix, number))",
                batches=name(schema, "batches"),
            )
        )


def has_batches(database: Database, schema: str, prefix: str) -> bool:
    """Whether the table `batches` of this schema knows a batch of this prefix."""
    batches = name(schema, "batches")
    look = text("SELECT 1 FROM {batches} WHERE prefix = {prefix} LIMIT 1", batches=batches, prefix=prefix)
    return bool(database.rows(look))
