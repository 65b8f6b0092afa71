"""Tables in Spark's catalog that read and write topics: their options are those of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reads import WITHIN_S, texts
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, require_shims, send

pytestmark = pytest.mark.every_spark


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    require_shims()
    name = fresh_name("made").replace("-", "_").replace(".", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, table: str, **options: str) -> None:
    given = ", ".join(f"'{name}' '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TABLE {table} USING `oncelog-kafka` OPTIONS ({given})")


def at(kafka: KafkaBroker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.address}


def test_a_table_is_read_by_the_options_that_made_it(
    spark: SparkSession, kafka: KafkaBroker, topic: str, table: str
) -> None:
    send(kafka, topic, "a", "b", headers=[[("origin", "AMS")]])
    Transaction(kafka).send(topic, "aborted").abort()
    create(spark, table, **at(kafka), subscribe=topic, includeHeaders="true")

    assert texts(spark.table(table).collect()) == ["a", "b"]
    assert spark.sql(f"SELECT headers[0].key FROM {table} WHERE offset = 0").first()[0] == "origin"  # type: ignore[index]
    narrower = f'{{"{topic}":{{"0":1,"1":0}}}}'
    assert texts(spark.read.option("startingOffsets", narrower).table(table).collect()) == ["b"]


def test_a_table_that_the_catalog_creates_is_read_as_a_stream(
    spark: SparkSession, kafka: KafkaBroker, topic: str, table: str, checkpoint: Path
) -> None:
    send(kafka, topic, "a", "b")
    options: dict[str, Any] = {**at(kafka), "subscribe": topic, "startingOffsets": "earliest"}
    spark.catalog.createTable(table, source="oncelog-kafka", **options)
    found: list[str] = []
    writer = spark.readStream.table(table).writeStream.foreachBatch(lambda rows, _: found.extend(texts(rows.collect())))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    assert query.awaitTermination(WITHIN_S)
    assert found == ["a", "b"]


def test_rows_are_inserted_into_a_table_and_a_stream_writes_into_it(
    spark: SparkSession, kafka: KafkaBroker, topic: str, table: str, tmp_path: Path
) -> None:
    create(spark, table, **at(kafka), topic=topic, znodes=str(tmp_path / "ledger"))
    spark.sql(f"INSERT INTO {table} SELECT 'a' AS value UNION ALL SELECT 'b'")
    assert values(kafka, topic) == ["a", "b"]

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    query = (
        rows.selectExpr("CAST(value AS STRING) AS value")
        .writeStream.option("checkpointLocation", str(tmp_path / "ck"))
        .trigger(processingTime="1 hour")  # one batch: the topic grows all the time, and its end is never reached
        .toTable(table)
    )
    try:
        until(lambda: {"0", "1"} <= set(values(kafka, topic)))
    finally:
        query.stop()


def test_a_table_of_a_source_takes_no_rows(spark: SparkSession, kafka: KafkaBroker, topic: str, table: str) -> None:
    create(spark, table, **at(kafka), subscribe=topic)

    with pytest.raises(Exception, match=r"unknown option.*option='subscribe'"):
        spark.sql(f"INSERT INTO {table} SELECT 'a' AS value")
    assert values(kafka, topic) == []


def test_a_table_without_options_says_what_is_missing(spark: SparkSession, table: str) -> None:
    create_without = f"CREATE TABLE {table} USING `oncelog-kafka` OPTIONS (subscribe 't')"
    spark.sql(create_without)

    with pytest.raises(Exception, match=r"the brokers are not named; missing=kafka.bootstrap.servers"):
        spark.table(table).collect()
