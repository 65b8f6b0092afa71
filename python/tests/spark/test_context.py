"""What the sinks find out about a micro-batch, on running queries and from their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from oncelog.errors import CorruptDataError, InvalidOptionError, OncelogError, SparkInternalsError, UsageError
from oncelog.spark.kit import context
from oncelog.spark.kit.context import BatchContext
from tests.support.spark.journal_source import JournalSource
from tests.support.spark.queries import forget_last_commit, numbers, run, run_batches, run_plan
from tests.support.spark.releases import since_4_3

pytestmark = pytest.mark.sampled("what a batch is known by")

OFFSET_LOG_VERSION = "spark.sql.streaming.offsetLog.formatVersion"
SOURCE_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


class Seen:
    """A foreachBatch function that keeps the context of each batch, or the error that it met."""

    def __init__(self, *, batch_id_ahead: int = 0) -> None:
        self.contexts: list[BatchContext] = []
        self.errors: list[OncelogError] = []
        self._ahead = batch_id_ahead

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        try:
            self.contexts.append(context.of_foreach_batch(df, batch_id + self._ahead))
        except OncelogError as error:
            self.errors.append(error)
        run_plan(df)

    @property
    def offsets(self) -> list[tuple[int, tuple[str | None, ...], tuple[str | None, ...]]]:
        return [(seen.batch_id, seen.start_offsets, seen.end_offsets) for seen in self.contexts]


@pytest.fixture(autouse=True)
def _journal_source(spark: SparkSession) -> None:
    spark.dataSource.register(JournalSource)


@pytest.fixture
def set_conf(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Settings of the session for one test: what is put in here is taken back."""

    class Settings(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            super().__setitem__(key, value)
            spark.conf.set(key, value)

    settings = Settings()
    yield settings
    for key in settings:
        spark.conf.unset(key)


def test_each_batch_starts_where_the_one_before_ended_and_the_first_starts_nowhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = Seen()

    run_batches(numbers(spark, tmp_path / "journal", until=3), seen, tmp_path / "ck")

    assert seen.errors == []
    assert seen.offsets == [
        (0, (None,), ('{"next": 1}',)),
        (1, ('{"next": 1}',), ('{"next": 2}',)),
        (2, ('{"next": 2}',), ('{"next": 3}',)),
    ]
    assert {(seen.checkpoint_root, seen.has_state) for seen in seen.contexts} == {(f"file:{tmp_path}/ck", False)}


def test_offsets_come_in_the_order_of_the_querys_sources(spark: SparkSession, tmp_path: Path) -> None:
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load().selectExpr("value AS number")
    counted = numbers(spark, tmp_path / "journal", until=1).select("number")
    one, other = Seen(), Seen()

    for handler, both in ((one, rates.union(counted)), (other, counted.union(rates))):
        writer = both.writeStream.foreachBatch(handler).option("checkpointLocation", str(tmp_path / str(id(handler))))
        writer.trigger(availableNow=True).start().awaitTermination()

    assert one.offsets[0] == (0, (None, None), ('{"offset":7,"timestamp":1000}', '{"next": 1}'))
    assert other.offsets[0] == (0, (None, None), ('{"next": 1}', '{"offset":7,"timestamp":1000}'))


def test_a_source_that_is_read_twice_shows_twice(spark: SparkSession, tmp_path: Path) -> None:
    counted = numbers(spark, tmp_path / "journal", until=1)
    seen = Seen()

    run_batches(counted.union(counted), seen, tmp_path / "ck")

    assert seen.offsets == [(0, (None, None), ('{"next": 1}', '{"next": 1}'))]


def test_queries_that_run_at_once_each_find_their_own_context(spark: SparkSession, tmp_path: Path) -> None:
    seen = [Seen(), Seen(), Seen()]
    queries = [
        numbers(spark, tmp_path / f"journal-{at}", until=at + 1)
        .writeStream.foreachBatch(handler)
        .option("checkpointLocation", str(tmp_path / f"ck-{at}"))
        .start()
        for at, handler in enumerate(seen)
    ]
    for query in queries:
        query.processAllAvailable()
    for query in queries:
        query.stop()

    for at, (query, handler) in enumerate(zip(queries, seen, strict=True)):
        assert handler.errors == []
        assert [batch.batch_id for batch in handler.contexts] == list(range(at + 1))
        assert {(batch.query_id, batch.run_id, batch.checkpoint_root) for batch in handler.contexts} == {
            (query.id, query.runId, f"file:{tmp_path}/ck-{at}")
        }


def test_a_replayed_batch_shows_the_offsets_of_its_first_run_under_a_new_run_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, again = Seen(), Seen()
    run_batches(numbers(spark, tmp_path / "journal", until=2), first, tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")

    run_batches(numbers(spark, tmp_path / "journal", until=3), again, tmp_path / "ck")

    assert replace(again.contexts[0], run_id="") == replace(first.contexts[-1], run_id="")
    assert again.contexts[0].run_id != first.contexts[-1].run_id
    assert [batch.batch_id for batch in again.contexts] == [1, 2]


def test_the_first_batch_is_replayed_without_a_start_too(spark: SparkSession, tmp_path: Path) -> None:
    first, again = Seen(), Seen()
    run_batches(numbers(spark, tmp_path / "journal", until=1), first, tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")

    run_batches(numbers(spark, tmp_path / "journal", until=1), again, tmp_path / "ck")

    assert again.offsets == first.offsets == [(0, (None,), ('{"next": 1}',))]


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_checkpoint_tells_what_the_running_query_told(
    spark: SparkSession, tmp_path: Path, set_conf: dict[str, str], version: str
) -> None:
    set_conf[OFFSET_LOG_VERSION] = version
    seen = Seen()
    counted = numbers(spark, tmp_path / "journal", until=2).union(numbers(spark, tmp_path / "journal", until=1))

    folder = tmp_path / "my größe"
    run_batches(counted, seen, folder)

    assert len(seen.contexts) == 2
    for told in seen.contexts:
        for location in (str(folder), f"file:{folder}", f"file://{folder}"):
            found = context.of_checkpoint(location, told.batch_id)
            assert replace(found, run_id=told.run_id, checkpoint_root=told.checkpoint_root) == told


@since_4_3
def test_named_sources_come_in_the_order_of_their_names_and_a_new_one_has_no_start(
    spark: SparkSession, tmp_path: Path, set_conf: dict[str, str]
) -> None:
    set_conf[SOURCE_EVOLUTION] = "true"
    before, after = Seen(), Seen()
    beta = numbers(spark, tmp_path / "journal", until=1, name="beta")
    run_batches(beta, before, tmp_path / "ck")

    alpha = numbers(spark, tmp_path / "journal", until=1, name="alpha")
    run_batches(numbers(spark, tmp_path / "journal", until=2, name="beta").union(alpha), after, tmp_path / "ck")

    assert before.offsets == [(0, (None,), ('{"next": 1}',))]
    assert after.offsets == [(1, (None, '{"next": 1}'), ('{"next": 1}', '{"next": 2}'))]


def test_a_query_with_state_is_told_from_its_first_batch_on(spark: SparkSession, tmp_path: Path) -> None:
    seen = Seen()
    counts = numbers(spark, tmp_path / "journal", until=2).groupBy("text").count()

    run(counts.writeStream.outputMode("update").foreachBatch(seen), tmp_path / "ck")

    assert [(batch.batch_id, batch.has_state) for batch in seen.contexts] == [(0, True), (1, True)]
    assert context.of_checkpoint(str(tmp_path / "ck"), 0).has_state


def test_async_progress_tracking_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    seen = Seen()
    writer = numbers(spark, tmp_path / "journal", until=1).writeStream.foreachBatch(seen)

    run(
        writer.option("asyncProgressTrackingEnabled", "true").option(
            "_asyncProgressTrackingOverrideSinkSupportCheck", "true"
        ),
        tmp_path / "ck",
    )

    assert [type(error) for error in seen.errors] == [InvalidOptionError]
    assert seen.errors[0].fields["option"] == "asyncProgressTrackingEnabled"
    assert seen.contexts == []


def test_a_dataframe_outside_foreach_batch_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError):
        context.of_foreach_batch(spark.range(1), 0)


def test_a_batch_without_an_entry_in_the_offset_log_names_sparks_version(spark: SparkSession, tmp_path: Path) -> None:
    seen = Seen(batch_id_ahead=5)

    run_batches(numbers(spark, tmp_path / "journal", until=1), seen, tmp_path / "ck")

    assert [type(error) for error in seen.errors] == [SparkInternalsError]
    assert seen.errors[0].fields["spark_version"] == spark.version
    assert seen.errors[0].fields["batch_id"] == 5


def test_a_session_that_is_not_the_querys_own_finds_no_query(spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()

    def handler(df: DataFrame, batch_id: int) -> None:
        context.of_foreach_batch(other.range(1), batch_id)

    with pytest.raises(StreamingQueryException, match="belongs to no running query"):
        run_batches(numbers(spark, tmp_path / "journal", until=1), handler, tmp_path / "ck")


# Checkpoints that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["{}/missing", "file:{}/missing", "s3n://bucket/ck", "abc://x/y"])
def test_a_checkpoint_out_of_reach_is_an_error_that_names_it(tmp_path: Path, location: str) -> None:
    place = location.format(tmp_path)

    with pytest.raises(InvalidOptionError) as caught:
        context.of_checkpoint(place, 0)

    assert (caught.value.fields["option"], caught.value.fields["value"]) == ("checkpointLocation", place)


def checkpoint(folder: Path, *, metadata: str = '{"id":"q"}', offsets: str = "v1\n{}\n7") -> str:
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text(metadata)
    (folder / "offsets" / "0").write_text(offsets)
    return str(folder)


def test_a_checkpoint_is_read_as_spark_writes_it(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, offsets='v1\n{}\n7\n-\n{"a":"\\u2028\u2028"}')

    assert context.of_checkpoint(place, 0) == BatchContext(
        query_id="q",
        run_id="",
        checkpoint_root=place,
        batch_id=0,
        start_offsets=(None, None, None),
        end_offsets=("7", None, '{"a":"\\u2028\u2028"}'),
        has_state=False,
    )


def test_a_checkpoint_is_read_from_the_very_path_that_its_uri_has(tmp_path: Path) -> None:
    """As Hadoop does, which undoes no percent-encoding."""
    folder = tmp_path / "100%20 große#?"
    folder.mkdir()

    assert context.of_checkpoint(f"file://{checkpoint(folder)}", 0).end_offsets == ("7",)


@pytest.mark.parametrize("offsets", ["", "v1", "v1\n{}", "v3\n{}\n7", "v2\n{}\n7", "7"])
def test_a_damaged_offset_log_is_an_error_that_names_the_file(tmp_path: Path, offsets: str) -> None:
    place = checkpoint(tmp_path, offsets=offsets)

    with pytest.raises(CorruptDataError) as caught:
        context.of_checkpoint(place, 0)

    assert caught.value.fields["file"] == f"{place}/offsets/0"


@pytest.mark.parametrize("metadata", ["", "[]", "{}", "7"])
def test_damaged_metadata_is_an_error_that_names_the_file(tmp_path: Path, metadata: str) -> None:
    place = checkpoint(tmp_path, metadata=metadata)

    with pytest.raises(CorruptDataError) as caught:
        context.of_checkpoint(place, 0)

    assert caught.value.fields["file"] == f"{place}/metadata"


def test_a_query_without_a_checkpoint_of_its_own_is_refused_as_its_next_start_would_write_all_again(
    spark: SparkSession, tmp_path: Path, set_conf: dict[str, str]
) -> None:
    def errors(name: str = "") -> list[OncelogError]:
        seen = Seen()
        rows = numbers(spark, tmp_path / "journal", until=1)
        query = rows.writeStream.queryName(name).foreachBatch(seen) if name else rows.writeStream.foreachBatch(seen)
        query.trigger(availableNow=True).start().awaitTermination()
        return seen.errors

    (temporary,) = errors()
    set_conf["spark.sql.streaming.checkpointLocation"] = str(tmp_path / "check points")
    (unnamed,) = errors()

    for error in (temporary, unnamed):
        assert isinstance(error, InvalidOptionError)
        assert error.fields["missing"] == "checkpointLocation"
    assert "/temporary-" in temporary.fields["temporary"]
    assert "/check points/" in unnamed.fields["temporary"]
    assert errors("copier") == []
