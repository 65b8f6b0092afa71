"""Values of every type of Spark that PostgreSQL has, by a real task, as a foreign client reads them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from oncelog_postgres.jobs import SparkJob
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld

DAY = dt.date(2024, 2, 29)
LOCAL = dt.datetime(2024, 2, 29, 12, 30, 1, 5)  # noqa: DTZ001 - as the column has it
INSTANT = LOCAL.replace(tzinfo=dt.UTC)
UUID = uuid.UUID("0b0f2c8e-6d0b-4a57-9a26-b6cdb6a4f9b1")

COLUMNS: dict[str, tuple[str, str, Any, Any]] = {
    # name: table's type, Spark's type, value, what is read if that differs
    "row": ("int", "int", 1, None),
    "truth": ("boolean", "boolean", True, None),
    "tiny": ("smallint", "byte", -128, None),
    "short": ("smallint", "short", 32_767, None),
    "widened": ("bigint", "int", -5, None),
    "long": ("bigint", "long", 2**63 - 1, None),
    "real": ("real", "float", 1.5, None),
    "double": ("double precision", "double", float("-inf"), None),
    "widened_real": ("double precision", "float", 0.25, None),
    "exact": ("numeric(38, 10)", "decimal(38, 10)", Decimal("1234567890123456789012345678.0123456789"), None),
    "whole": ("numeric", "long", 7, Decimal(7)),
    "text": ("text", "string", "é € 😀 \\ \t", None),
    "varying": ("varchar(3)", "string", "abc", None),
    "padded": ("char(3)", "string", "ab", "ab "),
    "bytes": ("bytea", "binary", bytearray(b"\0\xff"), b"\0\xff"),
    "day": ("date", "date", dt.date(1, 1, 1), None),
    "instant": ("timestamptz", "timestamp", INSTANT, None),
    "local": ("timestamp", "timestamp_ntz", LOCAL, None),
    "identity": ("uuid", "string", str(UUID), UUID),
    "mood": ("mood", "string", "happy", None),
    "small": ("small", "int", 9, None),
    "as_text": ("jsonb", "string", '{"a": [1, null]}', {"a": [1, None]}),
    "nested": ("jsonb", "struct<a: int, b: array<string>>", Row(a=None, b=["x"]), {"a": None, "b": ["x"]}),
    "mapped": ("json", "map<string, int>", {"k": 1}, None),
    "listed": ("jsonb", "array<int>", [1, None], None),
    "longs": ("bigint[]", "array<long>", [1, None, 2**40], None),
    "texts": ("text[]", "array<string>", ["a", None, ""], None),
    "days": ("date[]", "array<date>", [DAY], None),
    "identities": ("uuid[]", "array<string>", [str(UUID)], [UUID]),
    "Day%s of {week}": ("text", "string", "100%", None),
}


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer) -> Iterator[PostgresWorld]:
    postgres.ask("DROP TYPE IF EXISTS mood CASCADE; CREATE TYPE mood AS ENUM ('happy')")
    postgres.ask("DROP DOMAIN IF EXISTS small CASCADE; CREATE DOMAIN small AS int CHECK (VALUE < 10)")
    found = PostgresWorld(tmp_path, postgres, ", ".join(f'"{name}" {kind}' for name, (kind, *_) in COLUMNS.items()))
    yield found
    found.close()


def test_values_of_all_types_and_nulls_arrive_as_they_are(world: PostgresWorld, spark: SparkSession) -> None:
    schema = ", ".join(f"`{name}` {kind}" for name, (_, kind, *_) in COLUMNS.items())
    values = [value for _, _, value, _ in COLUMNS.values()]
    nulls = [2, *[None] * (len(values) - 1)]

    world.run_job(0, SparkJob(spark.createDataFrame([tuple(values), tuple(nulls)], schema)))

    filled, empty = world.found()
    expected = [value if read is None else read for _, _, value, read in COLUMNS.values()]
    assert dict(zip(COLUMNS, filled, strict=True)) == dict(zip(COLUMNS, expected, strict=True))
    assert list(empty) == nulls


def test_columns_are_found_in_any_case_and_those_left_out_get_their_defaults(
    world: PostgresWorld, spark: SparkSession
) -> None:
    world.server.ask(f"DROP TABLE {world.table}")
    world.server.ask(
        f'CREATE TABLE {world.table} (id int, "Id" int, at int NOT NULL DEFAULT 7, number serial, '
        "counted int GENERATED ALWAYS AS IDENTITY, twice int GENERATED ALWAYS AS (at * 2) STORED, spare text)"
    )

    world.run_job(0, SparkJob(spark.createDataFrame([(1, 2)], "Id int, AT int")))

    assert world.server.ask(f"SELECT * FROM {world.table}") == [(None, 1, 2, 1, 1, 4, None)]


def test_a_partitioned_table_is_a_table(world: PostgresWorld) -> None:
    world.server.ask(
        f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value text) PARTITION BY LIST (value); "
        f"CREATE TABLE {world.table}_a PARTITION OF {world.table} FOR VALUES IN ('a')"
    )
    world.run(0, ["a", "a"])

    assert world.holds(["a", "a"])
