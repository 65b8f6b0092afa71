"""What Iceberg's own Spark finds in a table that the sink writes into, and what both find when they take turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import oncelog_tables
from foreign_spark import ICEBERG, ICEBERG_JARS, ForeignSpark, running
from lake_queries import ROWS_OF_ALL_TYPES, Query
from lakes import catalog_in, close_sinks
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog_tables.batch_sink import IcebergSink

pytestmark = pytest.mark.sampled("tables")

COLUMNS = (
    "flag boolean, tiny int, long bigint, double double, price decimal(20, 4), text string, bytes binary, "
    "day date, at timestamp, local timestamp_ntz, inner struct<x: int, names: array<string>>, by_name map<string, int>"
)
NAMES = ["flag", "tiny", "long", "double", "price", "text", "bytes", "day", "at", "local", "inner", "by_name"]

TABLE = "db.landed"


class Lake:
    """A table that Iceberg's Spark and the sink have in turn, each in a catalog of its own.

    It is handed over by its newest metadata, and stays the same table. (Two processes lock each other out of one SQLite
    file.)

    Attributes:
        options: more of them, for the sink.
    """

    def __init__(self, folder: Path, spark: ForeignSpark, name: str) -> None:
        self._spark = spark
        self._name = name
        self._turn = 0
        self.options: dict[str, str] = {}
        self._sinks: list[IcebergSink] = []
        self._catalog = SqlCatalog("sink", **catalog_in(folder))
        self._catalog.create_namespace("db")
        self._properties = {f"catalog.{name}": value for name, value in self._catalog.properties.items()}
        self._znodes = str(folder / "ledger")

    @property
    def of_spark(self) -> str:
        """The table's name in Iceberg's Spark, in this turn."""
        return f"lake.db.{self._name}_{self._turn}"

    def ask(self, statement: str) -> list[dict[str, Any]]:
        """What Iceberg's Spark says; `THIS` is the table."""
        return self._spark.ask(statement.replace("THIS", self.of_spark))

    def write(self, write: Callable[[IcebergSink], None]) -> None:
        """Have a query write with a sink."""
        newest = self.ask("SELECT file FROM THIS.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")[0]["file"]
        if self._catalog.table_exists(TABLE):
            self._catalog.drop_table(TABLE)
        self._catalog.register_table(TABLE, newest)
        write(self.sink())
        self._turn += 1
        after = self._catalog.load_table(TABLE).metadata_location
        name = self.of_spark.removeprefix("lake.")
        self._spark.ask(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{after}')")

    def sink(self) -> IcebergSink:
        made = oncelog_tables.iceberg(
            table=TABLE, catalog="sink", znodes=self._znodes, **self.options, **self._properties
        )
        self._sinks.append(made)
        return made

    def close(self) -> None:
        close_sinks(self._sinks)
        self._catalog.close()


@pytest.fixture(scope="module")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignSpark]:
    folder = tmp_path_factory.mktemp("iceberg-spark")
    catalog = catalog_in(folder)
    with closing(SqlCatalog("lake", **catalog)) as loaded:
        loaded.create_namespace("db")
    own = {
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.warehouse": catalog["warehouse"],
    }
    with running(folder, ICEBERG_JARS, {**ICEBERG, **own}) as spark:
        yield spark


@pytest.fixture
def lake(request: pytest.FixtureRequest, iceberg_spark: ForeignSpark, tmp_path: Path) -> Iterator[Lake]:
    with closing(Lake(tmp_path, iceberg_spark, f"table_{abs(hash(request.node.name))}")) as found:
        yield found


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    close_ledgers()


def test_values_of_all_types_are_read_as_they_were_written_and_files_without_them_are_skipped(
    query: Query, lake: Lake
) -> None:
    lake.ask(f"CREATE TABLE THIS ({COLUMNS}) USING iceberg")
    local = "timestamp_ntz'1900-01-01 00:00:00.000001' local"
    written = query.spark.sql(f"SELECT *, {local} FROM ({ROWS_OF_ALL_TYPES})").select(*NAMES)
    lake.write(lambda sink: query.write_rows(sink, written))

    found = lake.ask("SELECT * FROM THIS ORDER BY long")

    expected = written.orderBy("long").selectExpr("to_json(struct(*)) row").collect()
    assert found == [json.loads(row["row"]) for row in expected]

    (file,) = lake.ask("SELECT file_path FROM THIS.files")
    Path(file["file_path"].removeprefix("file://")).unlink()  # whoever does not skip it fails
    outside = [
        "price < 0.1233",
        "price > 12345678901234.5678",
        "text > 'ê'",
        "day < '0001-01-01'",
        "at > '2026-01-03'",
        "local < '1900-01-01'",
        "long IS NULL",
    ]
    for where in outside:
        assert lake.ask(f"SELECT * FROM THIS WHERE {where}") == [], where


def test_icebergs_own_writer_and_the_sink_take_turns(query: Query, lake: Lake) -> None:
    """Its commits, deletes and compaction are understood, and the sink's by it; its partitions are the same."""
    lake.ask(
        "CREATE TABLE THIS (id int, value string, at timestamp) USING iceberg "
        "PARTITIONED BY (days(at), truncate(4, value)) "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    lake.ask("INSERT INTO THIS VALUES (1, 'theirs', timestamp'2026-01-01'), (2, 'theirs', null)")
    later = "timestamp'2026-01-01 23:59:59.999999' + make_dt_interval(0, 0, 0, id) AS at"
    rows = query.source().selectExpr("id", "value", later)

    query.add({"id": 0, "value": "ours: 100%"}, {"id": 4, "value": ""}, {"id": 5})
    lake.write(lambda sink: query.run_into(sink, rows))
    lake.ask("DELETE FROM THIS WHERE id IN (1, 5)")
    name = lake.of_spark.removeprefix("lake.")
    lake.ask(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    query.add({"id": 0, "value": "ours: 100%"})
    lake.write(lambda sink: query.run_into(sink, rows))

    def ids(where: str) -> list[int]:
        return [row["id"] for row in lake.ask(f"SELECT id FROM THIS WHERE {where} ORDER BY id")]

    assert ids("true") == [0, 0, 2, 4]
    assert ids("value = ''") == [4]
    assert ids("value = 'ours: 100%'") == [0, 0]
    assert ids("at = '2026-01-01 23:59:59.999999'") == [0, 0]
    assert ids("at > '2026-01-02'") == [4]
    assert ids("at IS NULL AND value = 'theirs'") == [2]
    lake.ask("ALTER TABLE THIS RENAME COLUMN value TO renamed")
    assert ids("renamed = ''") == [4]


KEY_COLUMNS = "text, flag, tiny, long, price, day, at, local"


def test_icebergs_own_spark_finds_keys_of_all_types_again(query: Query, lake: Lake) -> None:
    lake.options = {"mode": "upsert", "keyColumns": KEY_COLUMNS}
    lake.ask(f"CREATE TABLE THIS ({COLUMNS}) USING iceberg PARTITIONED BY (text, days(at))")
    local = "timestamp_ntz'1900-01-01 00:00:00.000001' local"
    rows = query.spark.sql(f"SELECT *, {local} FROM ({ROWS_OF_ALL_TYPES}) WHERE tiny IS NOT NULL").select(*NAMES)
    lake.write(lambda sink: query.write_rows(sink, rows))
    lake.write(lambda sink: query.write_rows(sink, rows.withColumn("double", rows["double"] * 0 + 7)))

    found = lake.ask("SELECT count(*) n, count(DISTINCT text) texts FROM THIS")

    assert found == [{"n": 1, "texts": 1}]
    assert lake.ask("SELECT content, count(*) n FROM THIS.all_files GROUP BY content ORDER BY 1") == [
        {"content": 0, "n": 2},
        {"content": 2, "n": 2},
    ]


def test_icebergs_own_writer_and_upserts_take_turns(query: Query, lake: Lake) -> None:
    """Its inserts, merges and compaction are understood, and the sink's deletes by it."""
    lake.options = {"mode": "upsert", "keyColumns": "id,at"}
    lake.ask(
        "CREATE TABLE THIS (id int, value string, at timestamp, more string) USING iceberg PARTITIONED BY (days(at))"
    )
    lake.ask("INSERT INTO THIS SELECT id, 'theirs', timestamp'2026-01-01', 'more' FROM range(6)")
    rows = query.source().selectExpr("id", "value", "timestamp'2026-01-01' AS at")

    query.add({"id": 0, "value": "ours"}, {"id": 1, "value": "ours"}, {"id": 9, "value": "ours"})
    lake.write(lambda sink: query.run_into(sink, rows))

    def found() -> dict[int, str]:
        asked = lake.ask("SELECT id, value FROM THIS")
        assert len(asked) == len({row["id"] for row in asked})
        return {row["id"]: row["value"] for row in asked}

    expected = dict.fromkeys(range(6), "theirs") | dict.fromkeys((0, 1, 9), "ours")
    assert found() == expected
    assert lake.ask("SELECT more FROM THIS WHERE id = 0") == [{}]

    lake.ask("UPDATE THIS SET value = 'updated' WHERE id IN (0, 5)")
    lake.ask("DELETE FROM THIS WHERE id = 1")
    query.add({"id": 0, "value": "ours again"}, {"id": 1, "value": "ours again"})
    lake.write(lambda sink: query.run_into(sink, rows))
    expected |= {5: "updated", 0: "ours again", 1: "ours again"}
    assert found() == expected

    name = lake.of_spark.removeprefix("lake.")
    lake.ask(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert found() == expected
    lake.ask("ALTER TABLE THIS RENAME COLUMN id TO number")
    lake.ask("ALTER TABLE THIS RENAME COLUMN number TO id")
    query.add({"id": 9, "value": "last"})
    lake.write(lambda sink: query.run_into(sink, rows))
    assert found() == expected | {9: "last"}


EVOLVING = (
    "id int, value string, price decimal(6, 2), inner struct<a: string, b: float>, "
    "tags array<struct<x: string, y: array<string>>>, by_name map<string, struct<x: string, y: int>>"
)


def evolving(value: str) -> str:
    """A row of these columns, with the value in each text."""
    return (
        f"1 id, '{value}' value, 1.25bd * 1 price, named_struct('a', '{value}', 'b', 0.5F) inner, "
        f"array(named_struct('x', '{value}', 'y', array('{value}'))) tags, "
        f"map('{value}', named_struct('x', '{value}', 'y', 7)) by_name"
    )


def test_values_stay_in_their_columns_when_columns_are_renamed_dropped_and_added_again(
    query: Query, lake: Lake
) -> None:
    lake.ask(f"CREATE TABLE THIS ({EVOLVING}) USING iceberg")
    columns = "id, value, cast(price AS decimal(6, 2)) price, inner, tags, by_name"

    def write(value: str) -> None:
        row = query.spark.sql(f"SELECT {columns} FROM (SELECT {evolving(value)})")
        lake.write(lambda sink: query.write_rows(sink, row))

    write("first")
    for name, kind in (("value", "string"), ("inner.a", "string"), ("tags.element.x", "string")):
        lake.ask(f"ALTER TABLE THIS RENAME COLUMN {name} TO was_{name.rpartition('.')[2]}")
        lake.ask(f"ALTER TABLE THIS ADD COLUMN {name} {kind}")
    lake.ask("ALTER TABLE THIS DROP COLUMN by_name.value.x")
    lake.ask("ALTER TABLE THIS ADD COLUMN by_name.value.x string FIRST")
    lake.ask("ALTER TABLE THIS ALTER COLUMN price TYPE decimal(20, 2)")
    lake.ask("ALTER TABLE THIS ALTER COLUMN inner.b TYPE double")
    lake.ask("ALTER TABLE THIS ALTER COLUMN id TYPE bigint")
    lake.ask("ALTER TABLE THIS ALTER COLUMN was_value FIRST")

    (row,) = lake.ask("SELECT * FROM THIS")
    assert row == {
        "was_value": "first",
        "id": 1,
        "price": 1.25,
        "inner": {"was_a": "first", "b": 0.5},
        "tags": [{"was_x": "first", "y": ["first"]}],
        "by_name": {"first": {"y": 7}},
    }

    columns = (
        "id, value, price, named_struct('was_a', 'was', 'b', 0.5D, 'a', inner.a) inner, "
        "array(named_struct('was_x', 'was', 'y', tags[0].y, 'x', tags[0].x)) tags, "
        "map('second', named_struct('x', by_name['second'].x, 'y', 7)) by_name"
    )
    write("second")
    lake.ask("ALTER TABLE THIS DROP COLUMN value")
    lake.ask("ALTER TABLE THIS RENAME COLUMN was_value TO value")
    found = lake.ask("SELECT id, value, inner, tags, by_name FROM THIS ORDER BY value NULLS FIRST")
    second, first = found
    assert first["value"] == "first"
    assert second == {
        "id": 1,
        "inner": {"was_a": "was", "b": 0.5, "a": "second"},
        "tags": [{"was_x": "was", "y": ["second"], "x": "second"}],
        "by_name": {"second": {"x": "second", "y": 7}},
    }


def test_a_key_is_found_under_its_new_name_and_not_in_a_column_with_its_old_one(query: Query, lake: Lake) -> None:
    lake.ask("CREATE TABLE THIS (id int, value string) USING iceberg TBLPROPERTIES ('format-version' = '2')")

    def upsert(key: str, value: str) -> None:
        lake.options = {"mode": "upsert", "keyColumns": key}
        row = query.spark.sql(f"SELECT 1 {key}, '{value}' value")
        lake.write(lambda sink: query.write_rows(sink, row))

    upsert("id", "first")
    upsert("id", "second")
    lake.ask("ALTER TABLE THIS RENAME COLUMN id TO number")
    lake.ask("ALTER TABLE THIS ADD COLUMN id int")
    assert lake.ask("SELECT * FROM THIS") == [{"number": 1, "value": "second"}]

    upsert("number", "third")
    assert lake.ask("SELECT * FROM THIS") == [{"number": 1, "value": "third"}]

    upsert("id", "fourth")
    upsert("id", "fifth")
    found = lake.ask("SELECT * FROM THIS ORDER BY value")
    assert found == [{"id": 1, "value": "fifth"}, {"number": 1, "value": "third"}]


def test_rows_are_replaced_after_the_types_of_their_keys_were_widened(query: Query, lake: Lake) -> None:
    """In files, and in files of deletes, that have the narrower type."""
    lake.options = {"mode": "upsert", "keyColumns": "id,price"}
    lake.ask(
        "CREATE TABLE THIS (id int, price decimal(6, 2), value string) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2')"
    )

    def upsert(value: str, id_: int, type_: str = "int", digits: int = 6) -> None:
        row = f"SELECT CAST({id_} AS {type_}) id, CAST(-1.25 AS decimal({digits}, 2)) price, '{value}' value"
        lake.write(lambda sink: query.write_rows(sink, query.spark.sql(row)))

    for value in ("first", "second"):
        for id_ in (-1, 2**31 - 1):
            upsert(value, id_)
    lake.ask("ALTER TABLE THIS ALTER COLUMN id TYPE bigint")
    lake.ask("ALTER TABLE THIS ALTER COLUMN price TYPE decimal(20, 2)")
    assert lake.ask("SELECT id, value FROM THIS ORDER BY id") == [
        {"id": -1, "value": "second"},
        {"id": 2**31 - 1, "value": "second"},
    ]

    upsert("third", -1)
    upsert("third", 2**31, "bigint", 20)
    upsert("fourth", 2**31, "bigint", 20)
    assert lake.ask("SELECT id, value FROM THIS ORDER BY id") == [
        {"id": -1, "value": "third"},
        {"id": 2**31 - 1, "value": "second"},
        {"id": 2**31, "value": "fourth"},
    ]


def test_field_ids_that_the_dataframe_has_from_another_file_mean_nothing(query: Query, lake: Lake) -> None:
    lake.ask(
        "CREATE TABLE THIS (a string, b string, s struct<x: string, y: string>, l array<struct<x: string, y: string>>) "
        "USING iceberg"
    )
    one = query.spark.sql(
        "SELECT 'a' a, 'b' b, named_struct('x', 'x', 'y', 'y') s, array(named_struct('x', 'x', 'y', 'y')) l"
    )
    fields = ((2, "a", "string"), (1, "b", "string"), (3, "s", _struct(6, 5)), (4, "l", _array(_struct(8, 7))))
    schema = StructType.fromJson({"type": "struct", "fields": [_field(*field) for field in fields]})
    swapped = query.spark.createDataFrame(one.rdd, schema)
    assert swapped.schema["a"].metadata == {"parquet.field.id": 2}
    lake.write(lambda sink: query.write_rows(sink, swapped))
    lake.write(
        lambda sink: query.write_rows(sink, swapped.withMetadata("a", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}))
    )

    pair = {"x": "x", "y": "y"}
    assert lake.ask("SELECT * FROM THIS") == [{"a": "a", "b": "b", "s": pair, "l": [pair]}] * 2


def _field(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {"parquet.field.id": field_id}}


def _struct(x: int, y: int) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(x, "x", "string"), _field(y, "y", "string")]}


def _array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


LONG = "repeat('é', 3000)"


def test_bounds_of_texts_and_bytes_never_hide_a_row(query: Query, lake: Lake) -> None:
    """Filters in Iceberg's own reader, by values whose bounds cannot be cut in the plain way."""
    lake.ask("CREATE TABLE THIS (id int, text string, bytes binary, required string NOT NULL) USING iceberg")
    texts = ["x" * 15 + "\ud7ff" + "more", "\U0010ffff" * 17, "y" * 15 + "\U0010ffff" + "z", "", "z" * 16 + "!"]
    for number, text in enumerate(texts):
        raw = text.encode().hex() if number else "ff" * 20
        rows = f"SELECT {number} id, '{text}' text, x'{raw}' bytes, {LONG} required"
        row = query.spark.sql(rows).selectExpr("id", "text", "bytes", "if(id < 0, null, required) required")
        lake.write(lambda sink, row=row: query.write_rows(sink, row))  # type: ignore[misc]

    for number, text in enumerate(texts):
        raw = text.encode().hex() if number else "ff" * 20
        for where in (f"text = '{text}'", f"text >= '{text}'", f"bytes = x'{raw}'", f"required = {LONG}"):
            assert {"id": number} in lake.ask(f"SELECT id FROM THIS WHERE {where}"), where
