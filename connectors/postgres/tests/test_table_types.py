"""Values of every type of Spark that PostgreSQL has, by a real task, as a foreign client reads them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from oncelog.errors import InvalidRecordError
from oncelog_postgres.jobs import SparkJob
from tests.support.servers.postgres import PostgresServer
from worlds import ArrowJob, PostgresWorld

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
    "bits": ("bit(4)", "string", "1010", None),
    "more_bits": ("varbit(4)[]", "array<string>", ["1", "1010"], None),
    "sign": ('"char"', "string", "x", None),
    "named": ("name", "string", "n" * 63, None),
    "to_the_second": ("timestamp(0)", "timestamp_ntz", LOCAL.replace(microsecond=0), None),
    "to_the_ms": ("timestamptz(3)[]", "array<timestamp>", [INSTANT.replace(microsecond=7000)], None),
    "of_the_day": ("time(3)", "string", "23:59:59.125", dt.time(23, 59, 59, 125_000)),
    "span": ("interval(0)", "string", "1 day 00:00:01", dt.timedelta(days=1, seconds=1)),
    "smalls": ("small[]", "array<int>", [1, None, 9], "{1,NULL,9}"),  # to psycopg an unknown type
    "moods": ("mood[]", "array<string>", ["happy"], "{happy}"),
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


OF_BATCHES: list[dict[str, Any]] = [{}]
BOTH = [*OF_BATCHES, {"transaction": "task"}]
"""A transaction of the batch, and one of each task."""

NTZ, TZ = pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "of_arrow", "kept", "lost", "modes"),
    [
        ("timestamp(0)", NTZ, LOCAL.replace(microsecond=0), LOCAL.replace(microsecond=700_000), BOTH),
        ("timestamptz(3)", TZ, INSTANT.replace(microsecond=5000), INSTANT, BOTH),
        ("timestamp(5)[]", pa.list_(NTZ), [None], [LOCAL], BOTH),
        ("to_seconds", NTZ, LOCAL.replace(microsecond=0), LOCAL, BOTH),
        ("to_seconds[]", pa.list_(NTZ), [LOCAL.replace(microsecond=0)], [LOCAL], BOTH),
        ("varchar(3)", pa.string(), "abc", "ab  ", BOTH),
        ("short_text", pa.string(), "abc", "ab  ", BOTH),
        ("varchar(1)[]", pa.list_(pa.string()), ["a"], ["a", "b "], OF_BATCHES),
        ("text", pa.string(), "a", "a\0", BOTH),
        ("time(0)", pa.string(), "23:59:59", "23:59:59.7", OF_BATCHES),
        ("timetz(2)", pa.string(), "23:59:59.12+01", "23:59:59.123+01", OF_BATCHES),
        ("time(1)[]", pa.list_(pa.string()), ["23:59:59.1"], ["23:59:59.19"], OF_BATCHES),
        ("interval(2)", pa.string(), "1.25 s", "1.255 s", OF_BATCHES),
        ("interval hour to minute", pa.string(), "1:30", "1:30:01", OF_BATCHES),
        ('"char"', pa.string(), "a", "ab", OF_BATCHES),
        ("name", pa.string(), "n" * 63, "n" * 64, OF_BATCHES),
        ("bit(1)", pa.string(), "1", "1010", OF_BATCHES),
        ("bit(4)[]", pa.list_(pa.string()), ["1010"], ["10101"], OF_BATCHES),
        ("four_bits", pa.string(), "1010", "10101", OF_BATCHES),
        ("varbit(2)", pa.string(), "10", "101", OF_BATCHES),
    ],
)
def test_a_value_that_the_table_would_round_or_cut_decides_nothing(
    world: PostgresWorld, kind: str, of_arrow: pa.DataType, kept: Any, lost: Any, modes: list[dict[str, Any]]
) -> None:
    for domain, below in (("to_seconds", "timestamp(0)"), ("short_text", "varchar(3)"), ("four_bits", "bit(4)")):
        world.server.ask(f"DROP DOMAIN IF EXISTS {domain} CASCADE; CREATE DOMAIN {domain} AS {below}")
    for number, mode in enumerate(modes):
        world.prefix, world.options = f"{world.prefix}.{number}", mode
        world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value {kind})")

        with pytest.raises(InvalidRecordError) as refused:
            world.run_job(0, ArrowJob(pa.table({"value": pa.array([kept, None, lost], of_arrow)})))
        assert world.found() == []
        world.run_job(0, ArrowJob(pa.table({"value": pa.array([kept, None], of_arrow)})), "run-2")

        assert "value" in str(refused.value)
        assert len(world.found()) == 2
        assert world.left() == []


def test_an_error_of_a_value_comes_from_sparks_tasks_as_it_is(world: PostgresWorld, spark: SparkSession) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (at timestamp(0))")

    with pytest.raises(
        InvalidRecordError, match=r"more digits of a second.*column='at', value=2024-02-29 12:30:01.000005"
    ):
        world.run_job(0, SparkJob(spark.createDataFrame([(LOCAL,)], "at timestamp_ntz")))

    assert (world.found(), world.left()) == ([], [])


def test_whole_numbers_that_a_numeric_would_round_are_refused_as_decimals_are(
    world: PostgresWorld, spark: SparkSession
) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value numeric(5, -2))")

    for kind in ("bigint", "int", "decimal(5, 0)"):
        with pytest.raises(InvalidRecordError, match=r"PostgreSQL would round.*table_type='numeric\(5,-2\)'"):
            world.run_job(0, SparkJob(spark.sql(f"SELECT CAST(1250 AS {kind}) AS value")))


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_json_keeps_microseconds_and_zones(world: PostgresWorld, spark: SparkSession, kind: str) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value {kind})")
    instants = (
        "named_struct('at', timestamp_micros(1709209801000005), 'all', array(timestamp'9999-12-31 23:59:59.999999'), "
        "'by', map('old', timestamp'1900-01-01 00:00:00'), 'ntz', timestamp_ntz'2024-02-29 12:30:01.000005')"
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        world.run_job(0, SparkJob(spark.sql(f"SELECT {instants} AS value")))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)  # type: ignore[arg-type]

    assert world.server.ask(f"SELECT value FROM {world.table}") == [
        (
            {
                "at": "2024-02-29T18:15:01.000005+05:45",
                "all": ["9999-12-31T23:59:59.999999+05:45"],
                "by": {"old": "1900-01-01T00:00:00.000000+05:41:16"},
                "ntz": "2024-02-29T12:30:01.000005",
            },
        )
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("map(date'2024-02-29', 1)", "keys of this type.*column='value'.*map<date,int>"),
        ("named_struct('a', array(map(X'00ff', 1)))", "keys of this type"),
        ("map('a', array(CAST(X'61ff' AS string)))", "not valid UTF-8.*column='value.value.element'"),
        ("named_struct('a', 'b\\u0000')", "column='value'|unsupported Unicode escape"),
    ],
)
def test_what_json_cannot_show_is_refused(world: PostgresWorld, spark: SparkSession, value: str, said: str) -> None:
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} (value jsonb)")

    with pytest.raises(InvalidRecordError, match=said):
        world.run_job(0, SparkJob(spark.sql(f"SELECT {value} AS value")))

    assert (world.found(), world.left()) == ([], [])


@pytest.mark.parametrize("options", BOTH)
def test_columns_may_have_any_name(world: PostgresWorld, spark: SparkSession, options: dict[str, Any]) -> None:
    names = ["a.b", "a`b", "`", 'say "hi"', "per cent %s", "{braces}", " ", "Ärger", "select", "x" * 63, "c0", "back\\"]
    world.options = options
    columns = ", ".join('"{}" int'.format(name.replace('"', '""')) for name in names)
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} ({columns})")
    schema = StructType([StructField(name, IntegerType()) for name in reversed(names)])

    world.run_job(0, SparkJob(spark.createDataFrame([tuple(range(len(names)))], schema)))

    assert world.found() == [tuple(reversed(range(len(names))))]


def test_the_extremes_of_all_types_arrive(world: PostgresWorld, spark: SparkSession) -> None:
    values = {
        "int": ("-2147483648", "-2147483648"),
        "smallint": ("CAST(-32768 AS smallint)", "-32768"),
        "bigint": ("CAST(-9223372036854775808 AS bigint)", "-9223372036854775808"),
        "real": ("CAST(3.4028235E38 AS float)", "3.4028235e+38"),
        "double precision": ("CAST(4.9E-324 AS double)", "5e-324"),
        "numeric": ("CAST(99999999999999999999999999999999999999 AS decimal(38, 0))", "9" * 38),
        "numeric(38, 38)": ("CAST(-0.00000000000000000000000000000000000001 AS decimal(38, 38))", f"-0.{'0' * 37}1"),
        "date": ("date_from_unix_date(2145042905)", "5874897-12-31"),
        "date[]": ("array(date_from_unix_date(-2440588))", '{"4714-11-24 BC"}'),
        "timestamp": ("timestamp_ntz'-4713-11-24 00:00:00'", "4714-11-24 00:00:00 BC"),
        "timestamptz": ("timestamp_micros(9223372036854775807)", "294247-01-10 04:00:54.775807+00"),
        "money": ("'-92233720368547758.08'", "-$92,233,720,368,547,758.08"),
        "time": ("'24:00:00'", "24:00:00"),
        "interval": ("'-178000000 years'", "-178000000 years"),
    }
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(values))
    world.server.ask(f"DROP TABLE {world.table}; CREATE TABLE {world.table} ({columns})")
    selected = ", ".join(f"{value} AS c{number}" for number, (value, _) in enumerate(values.values()))

    world.run_job(0, SparkJob(spark.sql(f"SELECT {selected}")))

    shown = ", ".join(f"c{number}::text" for number in range(len(values)))
    (found,) = world.server.ask(f"SELECT {shown} FROM {world.table}")
    assert dict(zip(values, found, strict=True)) == {kind: text for kind, (_, text) in values.items()}
