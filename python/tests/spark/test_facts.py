"""Facts about Spark that the source and the sinks rest on. A Spark that changes one of them fails here first.

Each is told by a data source that writes down how Spark calls it (`journal_source.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark.journal_source import Call, Journal, JournalSource
from tests.support.spark.queries import forget_last_commit, last_batch, numbers, run, run_batches, run_plan
from tests.support.spark.releases import since_4_2

pytestmark = pytest.mark.sampled("what a batch is known by")


@pytest.fixture(autouse=True)
def _journal_source(spark: SparkSession) -> None:
    spark.dataSource.register(JournalSource)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path / "journal"))


def options_of(calls: list[Call]) -> list[dict[str, str]]:
    return [{name: value for name, value in call["options"].items() if name != "journal"} for call in calls]


# Sources --------------------------------------------------------------------------------------------------------------


@since_4_2
def test_the_initial_offset_is_asked_again_when_batch_0_is_replayed(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    counted = numbers(spark, tmp_path / "journal", until=1)
    run_batches(counted, ignore, tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")
    journal.forget()

    run_batches(counted, ignore, tmp_path / "ck")

    calls = journal.calls("initialOffset", "latestOffset", "partitions")
    assert [call["call"] for call in calls][:2] == ["initialOffset", "partitions"]
    assert calls[1]["start"] == {"next": 0}


@since_4_2
def test_the_initial_offset_is_not_asked_when_a_later_batch_is_replayed(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    counted = numbers(spark, tmp_path / "journal", until=2)
    run_batches(counted, ignore, tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")
    journal.forget()

    run_batches(counted, ignore, tmp_path / "ck")

    calls = journal.calls("initialOffset", "partitions")
    assert (calls[0]["call"], calls[0]["start"], calls[0]["end"]) == ("partitions", {"next": 1}, {"next": 2})


def test_the_first_batch_runs_also_where_it_is_empty_and_its_end_is_kept(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    """Hence a source that makes batch 0 empty has its starting offset in the checkpoint."""
    run_batches(numbers(spark, tmp_path / "journal", until=0), ignore, tmp_path / "ck")

    assert [(call["start"], call["end"]) for call in journal.calls("partitions")] == [({"next": 0}, {"next": 0})]
    assert (tmp_path / "ck" / "offsets" / "0").read_text().splitlines()[-1] == '{"next": 0}'


def test_a_later_batch_that_ends_where_it_starts_is_not_run(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    run_batches(numbers(spark, tmp_path / "journal", until=1), ignore, tmp_path / "ck")

    assert [call["start"] for call in journal.calls("latestOffset")][:2] == [{"next": 0}, {"next": 1}]
    assert last_batch(tmp_path / "ck") == 0


def test_a_source_is_told_of_a_committed_batch_when_the_next_one_is_due_and_never_of_the_last(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    run_batches(numbers(spark, tmp_path / "journal", until=3), ignore, tmp_path / "ck")

    assert [call["end"] for call in journal.calls("commit")] == [{"next": 1}, {"next": 2}]
    order = [(call["call"], call["end"]["next"]) for call in journal.calls("commit", "partitions")]
    assert order == [("partitions", 1), ("commit", 1), ("partitions", 2), ("commit", 2), ("partitions", 3)]


def test_a_source_is_never_told_to_stop(spark: SparkSession, tmp_path: Path, journal: Journal) -> None:
    run_batches(numbers(spark, tmp_path / "journal", until=1), ignore, tmp_path / "ck")

    assert journal.calls("stop") == []


def test_options_arrive_in_lower_case_and_a_load_path_as_path(
    spark: SparkSession, journal: Journal, tmp_path: Path
) -> None:
    reader = spark.read.format("journal").option("journal", str(tmp_path / "journal")).option("camelCase", True)

    reader.load().collect()
    reader.load("/data/log").collect()

    assert options_of(journal.calls("reader")) == [{"camelcase": "true"}, {"camelcase": "true", "path": "/data/log"}]


def test_columns_are_not_pruned_for_a_python_source(spark: SparkSession, journal: Journal, tmp_path: Path) -> None:
    loaded = spark.read.format("journal").option("journal", str(tmp_path / "journal")).load()

    assert loaded.select("number").count() == 3

    assert [call["columns"] for call in journal.calls("reader")] == ["struct<number:bigint,text:string>"]


def test_a_schema_given_by_the_user_reaches_the_reader(spark: SparkSession, journal: Journal, tmp_path: Path) -> None:
    reader = spark.read.format("journal").option("journal", str(tmp_path / "journal")).schema("text string")

    assert [row.asDict() for row in reader.load().collect()] == [{"text": "0"}, {"text": "1"}, {"text": "2"}]
    assert [call["columns"] for call in journal.calls("reader")] == ["struct<text:string>"]


def test_a_column_that_is_never_null_stays_so_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    found = []

    def handler(df: DataFrame, batch_id: int) -> None:
        found.append(([field.nullable for field in df.schema.fields], [tuple(row) for row in df.collect()]))

    run_batches(numbers(spark, tmp_path / "journal", until=1), handler, tmp_path / "ck")

    assert found == [([True, False], [(0, "0")])]


# foreachBatch ---------------------------------------------------------------------------------------------------------


def test_the_plan_of_a_batch_runs_once_for_each_action_on_it(spark: SparkSession, tmp_path: Path) -> None:
    accumulator = spark.sparkContext.accumulator(0)

    def handler(df: DataFrame, batch_id: int) -> None:
        def count(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                accumulator.add(batch.num_rows)
                yield batch

        counted = df.mapInArrow(count, df.schema)
        run_plan(counted)
        run_plan(counted)

    run_batches(numbers(spark, tmp_path / "journal", until=1), handler, tmp_path / "ck")

    assert accumulator.value == 2


@since_4_2
def test_a_query_with_state_cannot_leave_out_a_batch_that_it_replays(spark: SparkSession, tmp_path: Path) -> None:
    """Hence a sink that skips a batch, since the log holds it already, must still run the plan."""
    counts = numbers(spark, tmp_path / "journal", until=2).groupBy("text").count()
    writer = counts.writeStream.outputMode("update")
    run(writer.foreachBatch(lambda df, _: run_plan(df)), tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")

    with pytest.raises(StreamingQueryException):
        run(writer.foreachBatch(ignore), tmp_path / "ck")
    run(writer.foreachBatch(lambda df, _: run_plan(df)), tmp_path / "ck")

    assert last_batch(tmp_path / "ck") == 1


@since_4_2
def test_real_time_mode_takes_no_foreach_batch(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.readStream.format("rate").load().writeStream.foreachBatch(ignore).outputMode("update")

    with pytest.raises(IllegalArgumentException, match="REAL_TIME_MODE"):
        writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(realTime="5 seconds").start()  # type: ignore[call-overload]


# Stream writers -------------------------------------------------------------------------------------------------------


def write(spark: SparkSession, tmp_path: Path, until: int, name: str = "copy") -> None:
    writer = numbers(spark, tmp_path / "reads", until).writeStream.format("journal")
    run(writer.option("journal", str(tmp_path / "journal")).queryName(name), tmp_path / "ck")


def test_a_stream_writer_is_told_sparks_own_options_too(spark: SparkSession, tmp_path: Path, journal: Journal) -> None:
    write(spark, tmp_path, until=1)

    assert options_of(journal.calls("streamWriter"))[0] == {
        "checkpointlocation": str(tmp_path / "ck"),
        "queryname": "copy",
    }


def test_a_stream_writer_is_not_told_a_checkpoint_that_only_the_configuration_names(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    key = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(key, str(tmp_path / "root"))
    try:
        writer = numbers(spark, tmp_path / "reads", until=1).writeStream.format("journal").queryName("copy")
        query = writer.option("journal", str(tmp_path / "journal")).trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        spark.conf.unset(key)

    assert options_of(journal.calls("streamWriter"))[0] == {"queryname": "copy"}
    assert (tmp_path / "root" / "copy" / "offsets" / "0").exists()


def test_a_task_learns_batch_query_and_run_from_its_properties(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    write(spark, tmp_path, until=1)
    write(spark, tmp_path, until=2)

    first, second = [call["properties"] for call in journal.calls("write")]
    assert (first["streaming.sql.batchId"], second["streaming.sql.batchId"]) == ("0", "1")
    assert first["sql.streaming.queryId"] == second["sql.streaming.queryId"]
    assert first["spark.jobGroup.id"] != second["spark.jobGroup.id"]


def test_a_batch_is_committed_again_when_spark_did_not_get_to_note_it(
    spark: SparkSession, tmp_path: Path, journal: Journal
) -> None:
    write(spark, tmp_path, until=2)
    forget_last_commit(tmp_path / "ck")

    write(spark, tmp_path, until=2)

    assert [(call["batch_id"], call["rows"]) for call in journal.calls("commitBatch")] == [(0, 1), (1, 1), (1, 1)]


def test_a_stream_writer_is_made_anew_for_each_commit(spark: SparkSession, tmp_path: Path, journal: Journal) -> None:
    write(spark, tmp_path, until=1)

    assert [call["call"] for call in journal.calls()] == ["streamWriter", "write", "streamWriter", "commitBatch"]


def ignore(df: DataFrame, batch_id: int) -> None:
    """A foreachBatch function that does nothing."""
