"""The check of values within a plan: which values it refuses, at any depth, and that all others are unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog.errors import InvalidRecordError
from oncelog.spark import task_errors
from oncelog.spark.kit import row_values

BAD = "CAST(X'636166e9' AS STRING)"
TOO_LATE = "date_add(DATE'9999-12-31', 1)"


@pytest.fixture(autouse=True, params=["UTC", "America/Los_Angeles"])
def _zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def write(rows: DataFrame) -> None:
    with task_errors.in_one_sentence():
        rows.write.format("noop").mode("overwrite").save()


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (f"{BAD} AS c", r"not valid UTF-8.*column='c', value=0x636166e9\]$"),
        (f"{BAD} AS `a.b`", r"not valid UTF-8.*column='a\.b'"),
        (f"named_struct('x', 1, 'y', {BAD}) AS c", r"UTF-8.*column='c\.y'"),
        (f"array('a', NULL, {BAD}) AS c", r"UTF-8.*column='c\.element', value=0x636166e9\]$"),
        (f"map({BAD}, 1) AS c", r"UTF-8.*column='c\.key'"),
        (f"map('a', NULL, 'b', {BAD}) AS c", r"UTF-8.*column='c\.value'"),
        (f"array(NULL, map(1, named_struct('y', {BAD}))) AS c", r"column='c\.element\.value\.y', value=0x636166e9"),
        (f"array(NULL, array({BAD})) AS c", r"UTF-8.*column='c\.element\.element'"),
        ("array(CAST(X'c3' AS STRING), CAST(X'a4' AS STRING)) AS c", "not valid UTF-8.*value=0xc3"),
        (f"{TOO_LATE} AS c", r"years 1 to 9999.*column='c', value=\+10000-01-01\]$"),
        ("date_sub(DATE'0001-01-01', 1) AS c", "years 1 to 9999"),
        (
            "timestamp_micros(253402300800000000) AS c",
            r"years 1 to 9999.*column='c', value=\+10000-01-01T00:00:00\.000Z\]$",
        ),
        ("timestamp_micros(-62135596800000001) AS c", "years 1 to 9999"),
        ("TIMESTAMP_NTZ'+10000-01-01 00:00:00' AS c", "years 1 to 9999"),
        (f"array(NULL, DATE'2020-01-01', {TOO_LATE}) AS c", r"years 1 to 9999.*column='c\.element', value=\+10000"),
        (f"map('a', named_struct('d', {TOO_LATE})) AS c", r"years 1 to 9999.*column='c\.value\.d'"),
    ],
)
def test_a_job_with_a_value_that_stores_do_not_hold_fails_with_its_column(
    spark: SparkSession, select: str, said: str
) -> None:
    with pytest.raises(InvalidRecordError, match=said):
        write(row_values.checked(spark.sql(f"SELECT 1 AS first, {select}")))


def test_all_other_rows_are_unchanged(spark: SparkSession) -> None:
    rows = spark.sql("""
        SELECT 'Zürich \U0010ffff' AS text, CAST(NULL AS STRING) AS none, X'ff' AS bytes, array('ä', NULL, '') AS texts,
               map('k', array(map('l', 'm'))) AS deep, CAST(NULL AS ARRAY<STRUCT<a: DATE>>) AS no_dates,
               DATE'0001-01-01' AS first_day, DATE'9999-12-31' AS last_day,
               array(DATE'9999-12-31', NULL) AS days,
               timestamp_micros(-62135596800000000) AS first, timestamp_micros(253402300799999999) AS last,
               TIMESTAMP_NTZ'0001-01-01 00:00:00' AS first_local,
               TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' AS last_local
    """)
    checked = row_values.checked(rows, required=["text", "deep"])

    assert checked.columns == rows.columns
    assert [field.dataType for field in checked.schema] == [field.dataType for field in rows.schema]
    as_json = "to_json(struct(*)) AS row"
    assert checked.selectExpr(as_json).collect() == rows.selectExpr(as_json).collect()


@pytest.mark.parametrize("kind", ["INT", "STRING", "BINARY", "STRUCT<a: INT>", "ARRAY<INT>"])
def test_a_required_column_without_a_value_fails_the_job(spark: SparkSession, kind: str) -> None:
    rows = spark.sql(f"SELECT CAST(NULL AS {kind}) AS c, CAST(NULL AS {kind}) AS d")

    with pytest.raises(InvalidRecordError, match=r"a row has no value in a column.*column='d'"):
        write(row_values.checked(rows, required=["d"]))


def test_a_sink_whose_store_knows_other_years_checks_texts_only(spark: SparkSession) -> None:
    rows = row_values.checked(spark.sql(f"SELECT {TOO_LATE} AS d, id, {BAD} AS t FROM range(1)"), moments=False)

    write(rows.select("d"))
    with pytest.raises(InvalidRecordError, match="column='t'"):
        write(rows)


def test_a_row_that_the_plan_drops_is_not_checked(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT id, IF(id = 1, {BAD}, 'a') AS c FROM range(3)").where("c = 'a'")

    write(row_values.checked(rows.join(spark.range(1), "id")))
