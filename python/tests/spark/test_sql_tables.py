"""Tables in Spark's catalog that read and write the embedded log: their options are those of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import oncelog
from oncelog.runtime import Log
from oncelog.spark.logs import close_logs
from tests.support.log.logs import started, values, write_committed

pytestmark = [pytest.mark.every_spark, pytest.mark.usefixtures("reader")]


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "made_by_a_test"
    spark.sql("DROP TABLE IF EXISTS made_by_a_test")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log in a folder: what a table names. Other places differ in nothing that a table sees."""
    with oncelog.open(tmp_path / "log") as opened:
        for topic in ("in", "out"):
            opened.create_topic(topic)
        yield opened
        close_logs()


def sent(log: Log, *rows: bytes) -> None:
    with started(log, "writer") as producer:
        write_committed(producer, *rows, topic="in")


def test_a_table_reads_the_log_of_its_path(spark: SparkSession, log: Log, table: str) -> None:
    sent(log, b"a", b"b")
    spark.sql(f"CREATE TABLE {table} USING oncelog OPTIONS (path '{log.path}', subscribe 'in')")

    assert sorted(bytes(row.value) for row in spark.table(table).collect()) == [b"a", b"b"]


def test_a_table_that_the_catalog_creates_is_read_as_a_stream(
    spark: SparkSession, log: Log, table: str, tmp_path: Path
) -> None:
    sent(log, b"a", b"b")
    spark.catalog.createTable(table, source="oncelog", path=log.path, subscribe="in", startingOffsets="earliest")
    found: list[bytes] = []
    writer = spark.readStream.table(table).writeStream.foreachBatch(
        lambda rows, _: found.extend(bytes(row.value) for row in rows.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()

    assert query.awaitTermination(60)
    assert sorted(found) == [b"a", b"b"]


def test_rows_are_inserted_into_a_table_with_a_topic(spark: SparkSession, log: Log, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} USING oncelog OPTIONS (path '{log.path}', topic 'out')")
    spark.sql(f"INSERT INTO {table} SELECT 'a' AS value")

    assert values(log, topic="out") == [b"a"]


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_brokers_are_answered_by_one_sentence(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    given = {"kafka.bootstrap.servers": "host:9092", "subscribe": "in"}
    with pytest.raises(Exception, match="for a Kafka cluster use the format oncelog-kafka") as raised:
        if kind == "batch":
            spark.read.format("oncelog").options(**given).load().collect()
        else:
            writer = spark.readStream.format("oncelog").options(**given).load().writeStream.format("noop")
            writer.option("checkpointLocation", str(tmp_path / "ck")).start().awaitTermination(60)

    assert "Traceback" not in str(raised.value)
    assert "UnboundLocalError" not in str(raised.value)


def test_a_wrong_option_of_a_stream_is_said_without_an_error_of_sparks(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("oncelog").options(path=str(tmp_path), subscribed="in").load()
    with pytest.raises(Exception, match=r"unknown option.*subscribed.*did_you_mean='subscribe'") as raised:
        rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start().awaitTermination(60)

    assert "UnboundLocalError" not in str(raised.value)
