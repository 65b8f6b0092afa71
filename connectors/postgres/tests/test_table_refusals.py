"""What the sink refuses before it runs a job, and what the table refuses before the decision: each by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import DataType, StructType

from oncelog.errors import InvalidRecordError, OncelogError, UsageError
from oncelog.testing.target_contract import at
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld, keyed

KEYED = "id int PRIMARY KEY, value text"


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    found = PostgresWorld(tmp_path, postgres)
    yield found
    assert found.left() == []
    found.close()


@dataclass
class Unrun:
    """A job that nobody may run."""

    schema: DataType


def make(world: PostgresWorld, columns: str, **options: Any) -> None:
    """Give the world another table, and its sinks further options."""
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} ({columns})")
    world.options = options


def refused_before_a_job(world: PostgresWorld, job: Any) -> str:
    """The text of the error for a job that does not run."""
    with at(PostgresCrashPoint.STAGED, lambda: None) as passed, pytest.raises(UsageError) as refused:
        world.run_job(0, job)
    assert PostgresCrashPoint.STAGED not in passed
    return str(refused.value)


@pytest.mark.usefixtures("spark")  # it parses the schemas
@pytest.mark.parametrize(
    ("columns", "schema", "said"),
    [
        ("id int, value text", "id int, val string", "has no such column; .*column='val', table='public.table_.*"),
        ("id int NOT NULL, value text", "value string", r"columns are missing .*missing=\['id'\]"),
        ('"Id" int, id int', "ID int", r"differ from this one in upper and lower case only.*\['Id', 'id'\]"),
        ("id int", "id int, ID int", r"two columns of the DataFrame are for the same column.*\['id', 'ID'\]"),
        ("id int", "id bigint", "cast it to byte or integer or short .*type='bigint'.*table_type='integer'"),
        ("id int", "id string", "cast it to byte or integer or short .*column='id', type='string'"),
        ("id text", "id int", "cast it to string"),
        ("id uuid", "id binary", "cast it to string"),
        ("id numeric(10, 2)", "id decimal(10, 3)", r"more digits behind the point.*table_type='numeric\(10,2\)'"),
        ("id numeric", "id double", "cast it to byte or decimal or integer or long or short"),
        ("id timestamp", "id timestamp", "cast it to timestamp_ntz"),
        ("id timestamptz", "id timestamp_ntz", "cast it to timestamp "),
        ("id text", "id struct<a: int>", "go into columns of type json or jsonb"),
        ("id text", "id map<string, int>", "go into columns of type json or jsonb"),
        ("id text", "id variant", "go into columns of type json or jsonb"),
        ("id int[]", "id array<array<int>>", "go into columns of type json or jsonb"),
        ("id int[]", "id array<string>", "cast it to byte or integer or short .*type='array<string>'"),
        ("id int[]", "id int", "cast it to a type that PostgreSQL has"),
        ("id interval", "id interval day to second", "cast it to a type that PostgreSQL has"),
        ("id int GENERATED ALWAYS AS IDENTITY", "id int", "the database computes this column"),
        ("id int, twice int GENERATED ALWAYS AS (id * 2) STORED", "id int, twice int", "the database computes this"),
    ],
)
def test_columns_that_do_not_fit_are_named_before_a_job_runs(
    world: PostgresWorld, columns: str, schema: str, said: str
) -> None:
    make(world, columns)

    assert re.search(said, refused_before_a_job(world, Unrun(StructType.fromDDL(schema))))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DROP TABLE {table}", "the database has no such table, or this role may not use its schema"),
        ("ALTER TABLE {table} SET UNLOGGED", "UNLOGGED, so a crash of the server empties it"),
        (
            "DROP TABLE {table}; CREATE TABLE {table} (value text) PARTITION BY LIST (value); "
            "CREATE UNLOGGED TABLE {table}_a PARTITION OF {table} FOR VALUES IN ('a')",
            "UNLOGGED, so a crash of the server empties it",
        ),
        (
            "DROP TABLE {table}; CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
            "CREATE FOREIGN TABLE {table} (value text) SERVER s",
            "is a foreign table, which another server commits by itself",
        ),
        ("DROP TABLE {table}; CREATE VIEW {table} AS SELECT 'a' AS value", "it is a view"),
    ],
)
def test_tables_that_cannot_keep_a_batch_are_refused(world: PostgresWorld, statement: str, said: str) -> None:
    world.server.ask(statement.format(table=world.table))

    assert said in refused_before_a_job(world, world.job(["a"]))


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ("", "id"),
        ("; CREATE UNIQUE INDEX ON {table} (id) WHERE value IS NULL", "id"),
        ("; CREATE UNIQUE INDEX ON {table} (lower(value))", "value"),
        ("; ALTER TABLE {table} ADD UNIQUE (id) DEFERRABLE", "id"),
        ("; CREATE UNIQUE INDEX ON {table} (id) INCLUDE (value)", "id,value"),
        ("; CREATE INDEX ON {table} (id)", "id"),
    ],
)
def test_an_upsert_needs_columns_that_are_unique(world: PostgresWorld, more: str, keys: str) -> None:
    make(world, "id int, value text", mode="upsert", keyColumns=keys)
    world.server.ask("SELECT 1" + more.format(table=world.table))

    assert "no primary key and no unique index of exactly these" in refused_before_a_job(world, keyed())


@pytest.mark.parametrize(
    ("columns", "options", "rows", "said"),
    [
        ("id int NOT NULL, value text", {}, [(None, "a")], "null value in column .*column='id'"),
        ("id int CHECK (id < 5), value text", {}, [(1, "a"), (7, "b")], "violates check constraint"),
        (KEYED, {}, [(1, "a"), (0, "b")], r"duplicate key value .*detail='Key \(id\)=\(0\) already exists"),
        (KEYED, {}, [(1, "a"), (1, "b")], "duplicate key value"),
        ("id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, value text", {}, [(0, "a")], "duplicate key value"),
        ("id int REFERENCES others DEFERRABLE INITIALLY DEFERRED, value text", {}, [(9, "a")], "violates foreign key"),
        ("id int, value text, EXCLUDE (id WITH =)", {}, [(0, "a")], "violates exclusion constraint"),
        ("id int, value varchar(3)", {}, [(1, "long"), (2, "a")], r"too long for type character varying\(3\)"),
        ("id int, value uuid", {}, [(1, "nonsense")], "invalid input syntax for type uuid"),
        ("id int, value text", {}, [(1, "a"), (2, "b\0c")], "null byte, which PostgreSQL cannot store.*column='value'"),
        (KEYED, {"mode": "upsert", "keyColumns": "id"}, [(1, "a"), (1, "b")], r"same key.*key=\{'id': 1\}"),
        (
            "id int UNIQUE, value text",
            {"mode": "upsert", "keyColumns": "id"},
            [(1, "a"), (None, "b")],
            r"no value in a key column.*columns=\['id'\]",
        ),
    ],
)
def test_rows_that_the_table_refuses_decide_nothing(
    world: PostgresWorld, columns: str, options: dict[str, Any], rows: list[tuple[Any, ...]], said: str
) -> None:
    world.server.ask("CREATE TABLE IF NOT EXISTS others (id int PRIMARY KEY)")
    make(world, columns, **options)
    world.server.ask("SET session_replication_role = replica; " + f"INSERT INTO {world.table} (id) VALUES (0)")

    with pytest.raises(InvalidRecordError, match=said):
        world.run_job(0, keyed(*rows))

    assert world.server.ask(f"SELECT id FROM {world.table}") == [(0,)]
    assert world.left() == []
    assert not world.run_job(0, keyed(), "run-2").is_replay


def test_a_trigger_may_refuse_a_batch_and_leave_rows_out(world: PostgresWorld) -> None:
    make(world, "id int, value text")
    world.server.ask(
        "CREATE OR REPLACE FUNCTION picky() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.id < 0 THEN RAISE EXCEPTION 'not below zero'; ELSIF NEW.id = 0 THEN RETURN NULL; END IF; "
        "RETURN NEW; END $$; "
        f"CREATE TRIGGER picky BEFORE INSERT ON {world.table} FOR EACH ROW EXECUTE FUNCTION picky()"
    )

    with pytest.raises(InvalidRecordError, match="not below zero"):
        world.run_job(0, keyed((1, "a"), (-1, "b")))
    assert world.found() == []

    world.run_job(0, keyed((0, "a"), (1, "b")), "run-2")
    assert world.found() == [(1, "b")]


def test_who_may_not_insert_is_told_so(world: PostgresWorld) -> None:
    world.server.ask("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    world.server.ask("GRANT CREATE ON DATABASE postgres TO reader")
    world.url = world.url.replace("oncelog@", "reader@")

    with pytest.raises(OncelogError, match=r"denies this process access: .*permission denied for table"):
        world.run(0, ["a"])

    world.server.ask(f"GRANT INSERT ON {world.table} TO reader")
    world.run(0, ["a"], "run-2")
    assert world.visible() == ["a"]
