"""A sink of two functions on SQLite: they pass the shipped contract, and queries write each batch once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog.spark
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidOptionError
from oncelog.runtime import Log
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.testing.once_contract import OnceContract, OnceWorld, Row
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from tests.support.log.logs import values
from tests.support.spark.queries import forget_last_commit, run_available


class SqliteTable(OnceWorld):
    """Rows in one table, tokens in another one, both in one transaction."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "rows.sqlite"
        with closing(self._open()) as database:
            database.executescript(
                "CREATE TABLE delayed (id INTEGER, value TEXT); CREATE TABLE tokens (token TEXT PRIMARY KEY);"
            )

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)

    def write(self, df: DataFrame, token: str) -> None:
        with closing(self._open()) as database, database:
            database.execute("INSERT INTO tokens VALUES (?)", (token,))
            database.executemany("INSERT INTO delayed VALUES (?, ?)", map(tuple, df.toLocalIterator()))

    def was_written(self, token: str) -> bool:
        with closing(self._open()) as database:
            return database.execute("SELECT 1 FROM tokens WHERE token = ?", (token,)).fetchone() is not None

    def rows(self) -> list[Row]:
        with closing(self._open()) as database:
            return database.execute("SELECT id, value FROM delayed").fetchall()

    def tokens(self) -> list[str]:
        with closing(self._open()) as database:
            return [token for (token,) in database.execute("SELECT token FROM tokens")]


@pytest.mark.usefixtures("spark")
class TestSqliteTable(OnceContract):
    world_class = SqliteTable


@pytest.fixture
def table(tmp_path: Path) -> SqliteTable:
    return SqliteTable(tmp_path)


@pytest.fixture
def batches(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    """A stream of two batches."""
    (tmp_path / "in").mkdir()
    for number, lines in enumerate(['{"id": 1, "value": "a"}\n{"id": 2, "value": "b"}', '{"id": 3, "value": "c"}']):
        (tmp_path / "in" / f"{number}.json").write_text(lines)
    reader = spark.readStream.schema("id int, value string").option("maxFilesPerTrigger", 1)
    yield reader.json(str(tmp_path / "in"))
    close_ledgers()


def test_batches_are_written_once_though_spark_runs_one_again(
    batches: DataFrame, table: SqliteTable, tmp_path: Path
) -> None:
    def run() -> None:
        options = {"znodes": str(tmp_path / "ledger"), "transactionalIdPrefix": "delayed"}
        sink = oncelog.spark.once(table.write, table.was_written, **options)
        run_available(batches.writeStream.foreachBatch(sink), tmp_path / "checkpoint")

    run()
    forget_last_commit(tmp_path / "checkpoint")
    run()

    assert sorted(table.rows()) == [(1, "a"), (2, "b"), (3, "c")]
    assert [token.rpartition(".")[0] for token in table.tokens()] == ["delayed.0", "delayed.1"]


def test_without_a_place_for_its_ledger_it_is_refused_before_anything_is_written(table: SqliteTable) -> None:
    with pytest.raises(InvalidOptionError) as error:
        oncelog.spark.once(table.write, table.was_written).open()

    assert error.value.fields["option"] == "znodes"


def test_together_with_a_log_both_have_the_batch_or_none_has(
    batches: DataFrame, table: SqliteTable, tmp_path: Path, log: Log, znodes: str | None
) -> None:
    """The driver dies behind the decision, before the functions are called; the replay calls them."""

    def run() -> None:
        into_log = oncelog.spark.sink(path=log.path, znodes=znodes, topic="out", transactionalIdPrefix="delayed")
        into_table = oncelog.spark.once(table.write, table.was_written, transactionalIdPrefix="delayed")
        both = oncelog.spark.together((into_log, lambda df: df.select("value")), into_table)
        run_available(batches.writeStream.foreachBatch(both), tmp_path / "checkpoint")

    with at(CrashPoint.ROUND_DECIDE, stop), pytest.raises(Exception, match=StoppedOnPurposeError.__name__):
        run()
    assert values(log, topic="out") == []
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(Exception, match=StoppedOnPurposeError.__name__):
        run()
    assert values(log, topic="out") != []
    assert table.rows() == []

    run()

    assert sorted(value or b"" for value in values(log, topic="out")) == [b"a", b"b", b"c"]
    assert sorted(table.rows()) == [(1, "a"), (2, "b"), (3, "c")]
