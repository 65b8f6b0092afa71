"""What `oncelog.spark.observe` serves while queries run, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oncelog.spark
from oncelog.errors import UsageError
from oncelog.metrics import catalogue as c
from oncelog.metrics.addresses import parse_address
from oncelog.metrics.exposition import CollectorRegistry
from oncelog.runtime import Log
from oncelog.spark import observing
from oncelog.spark.kit import watching
from oncelog.spark.observing import Observation, observe
from oncelog.ui.drivers import read_driver
from tests.support.harness.waiting import until
from tests.support.log.logs import send, values
from tests.support.log.pages import Page, check_catalogued, page_at, page_of, value
from tests.support.spark.queries import forget_last_commit, into, place, run_available, stream

pytestmark = pytest.mark.every_spark

QUERY = "copies"
SINK = {"query": QUERY, "target": "log", "prefix": "copies-in"}


@pytest.fixture
def observation(spark: SparkSession) -> Iterator[Observation]:
    with observe(spark, listen="127.0.0.1:0") as found:
        yield found


@pytest.fixture
def url(observation: Observation) -> str:
    assert observation.url is not None
    return observation.url


def copy(spark: SparkSession, log: Log, checkpoint: Path, **options: Any) -> None:
    df = stream(spark, log, maxOffsetsPerTrigger=2).select("key", "value")
    writer = into(df, log, "foreachBatch", **{"transactionalIdPrefix": SINK["prefix"], **options})
    run_available(writer.queryName(QUERY), checkpoint)


def ended(url: str, query: str = QUERY) -> Page:
    """The page once Spark has told of the query's end."""
    return until(lambda: page if value(page := page_at(url), c.QUERY_ACTIVE, query=query) == 0 else {})


def counted(page: Page, result: str, **labels: str) -> float:
    return value(page, c.SINK_BATCHES, **{**SINK, **labels}, result=result) or 0


def test_batches_rows_and_phases_are_counted_and_the_query_has_its_progress(
    spark: SparkSession, log: Log, tmp_path: Path, url: str
) -> None:
    send(log.producer(), b"a", b"b", b"c", topic="in")

    copy(spark, log, tmp_path / "ck")
    page = ended(url)

    batches = counted(page, "written")
    assert batches >= 2
    assert value(page, c.SINK_ROWS, **SINK) == 3
    assert value(page, c.QUERY_ROWS, query=QUERY) == 3
    assert (value(page, c.SINK_BYTES, **SINK) or 0) > 0
    for phase in ("write", "prepare", "decide", "commit"):
        labels = tuple(sorted({**SINK, "phase": phase}.items()))
        assert page["oncelog_sink_phase_seconds_count", labels] == batches
    assert value(page, c.QUERY_FAILURES, query=QUERY) == 0
    assert value(page, c.QUERY_BATCH, query=QUERY) == batches - 1
    assert value(page, c.SOURCE_BEHIND, query=QUERY, source=0) == 0
    # Nothing failed, and only Kafka's source has offsets that are held.
    check_catalogued(page, {*c.QUERY, *c.STORE} - {c.SINK_ERRORS, c.SOURCE_HELD})


def test_a_batch_that_was_decided_before_is_a_replay(spark: SparkSession, log: Log, tmp_path: Path, url: str) -> None:
    send(log.producer(), b"a", topic="in")
    copy(spark, log, tmp_path / "ck")
    before = ended(url)

    forget_last_commit(tmp_path / "ck")
    copy(spark, log, tmp_path / "ck")
    page = ended(url)

    assert (counted(page, "written"), counted(page, "replayed")) == (counted(before, "written"), 1)
    assert value(page, c.SINK_ROWS, **SINK) == 1


def test_refusals_failures_and_their_errors_are_told_apart(
    spark: SparkSession, log: Log, tmp_path: Path, url: str
) -> None:
    send(log.producer(), b"a", topic="in")
    copy(spark, log, tmp_path / "ck")
    with pytest.raises(StreamingQueryException):
        copy(spark, log, tmp_path / "another")
    with pytest.raises(StreamingQueryException):
        copy(spark, log, tmp_path / "third", topic="nowhere", transactionalIdPrefix="lost")

    page = until(lambda: page if value(page := page_at(url), c.QUERY_FAILURES, query=QUERY) == 2 else {})

    assert counted(page, "refused") == 1
    assert value(page, c.SINK_ERRORS, **SINK, error="BatchRefusedError") == 1
    failed = [labels for name, labels in page if name == c.SINK_BATCHES.name and ("result", "failed") in labels]
    assert [page[c.SINK_BATCHES.name, labels] for labels in failed] == [1]
    assert value(page, c.QUERY_ACTIVE, query=QUERY) == 0


def test_sinks_that_write_together_are_counted_one_by_one(
    spark: SparkSession, log: Log, tmp_path: Path, url: str
) -> None:
    send(log.producer(), b"a", topic="in")
    tokens: list[str] = []

    def write(df: DataFrame, token: str) -> None:
        df.count()
        tokens.append(token)

    both = oncelog.spark.together(
        oncelog.spark.sink(**place(log), topic="out", transactionalIdPrefix=SINK["prefix"]),
        oncelog.spark.once(write, tokens.__contains__, transactionalIdPrefix="mine"),
    )
    df = stream(spark, log).select("key", "value")
    run_available(df.writeStream.foreachBatch(both).queryName(QUERY), tmp_path / "ck")

    page = ended(url)

    assert [counted(page, "written"), counted(page, "written", target="once", prefix="mine")] == [2, 2]
    assert value(page, c.SINK_ROWS, **SINK) == 1
    phases = {dict(labels)["target"] for name, labels in page if name == "oncelog_sink_phase_seconds_count"}
    assert phases == {"together"}
    read = read_driver(parse_address(url.removeprefix("http://").removesuffix("/metrics")))  # as `oncelog ui` does
    assert {labels[1:]: count for labels, count in read.values[c.SINK_BATCHES].items()} == {
        ("log", SINK["prefix"], "written"): 2,
        ("once", "mine", "written"): 2,
    }
    assert read.values[c.QUERY_ACTIVE] == {(QUERY,): 0}


def test_a_query_without_a_name_goes_by_its_id_and_only_so_many_have_their_own(
    spark: SparkSession, log: Log, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "QUERIES_MOST", 1)
    send(log.producer(), b"a", topic="in")
    first = run_available(into(stream(spark, log), log, "foreachBatch"), tmp_path / "first")
    run_available(into(stream(spark, log), log, "foreachBatch", sinkName="b"), tmp_path / "second")
    run_available(into(stream(spark, log), log, "foreachBatch", sinkName="c"), tmp_path / "third")

    page = ended(url, observing.OTHERS)

    assert value(page, c.QUERY_ACTIVE, query=first.id) == 0
    assert {dict(labels)["query"] for name, labels in page if name == c.SINK_ROWS.name} == {first.id, "(others)"}
    assert value(page, c.SINK_ROWS, query="(others)", target="log", prefix="(others)") == 2


def test_a_registry_of_the_callers_gets_the_metrics_until_it_is_closed(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    send(log.producer(), b"a", topic="in")

    with observe(spark, registry=registry) as observation:
        copy(spark, log, tmp_path / "ck")
        assert observation.url is None
        assert counted(page_of(registry), "written") == 2  # the first batch only notes where the topic begins

    observation.close()
    assert page_of(registry) == {}
    assert watching.WATCHERS == []
    with observe(spark, registry=registry):  # the names are free again
        pass


def test_a_watcher_that_fails_does_not_fail_the_batch(
    spark: SparkSession, log: Log, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the test's watcher")

    monkeypatch.setattr(observing._SinkWatcher, "batch_ended", fail)
    send(log.producer(), b"a", topic="in")

    copy(spark, log, tmp_path / "ck")

    page = ended(url)
    assert values(log, topic="out") == [b"a"]
    assert (value(page, c.QUERY_FAILURES, query=QUERY), counted(page, "failed")) == (0, 0)


def test_a_page_ends_with_its_observation(spark: SparkSession) -> None:
    with observe(spark, listen="127.0.0.1:0") as observation:
        assert observation.url is not None
        page_at(observation.url)

    with pytest.raises(URLError):
        urlopen(observation.url, timeout=30)


def test_what_cannot_be_served_is_refused_and_nothing_listens(spark: SparkSession, url: str) -> None:
    taken = url.removeprefix("http://").removesuffix("/metrics")
    watchers = list(watching.WATCHERS)

    with pytest.raises(UsageError, match="cannot listen at this address"):
        observe(spark, listen=taken)
    with pytest.raises(UsageError, match="not an address"):
        observe(spark, listen="9465")
    with pytest.raises(UsageError, match="listen or registry, not both"):
        observe(spark, listen="127.0.0.1:0", registry=CollectorRegistry())

    assert watchers == watching.WATCHERS


def test_jobs_say_in_sparks_ui_which_phase_of_which_sink_they_are(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    descriptions: list[str | None] = []
    tokens: list[str] = []

    def write(df: DataFrame, token: str) -> None:
        df.count()
        tokens.append(token)

    send(log.producer(), b"a", topic="in")
    both = oncelog.spark.together(
        oncelog.spark.sink(**place(log), topic="out", transactionalIdPrefix="out"),
        oncelog.spark.once(write, tokens.__contains__, transactionalIdPrefix="mine"),
    )

    def handle(df: DataFrame, batch_id: int) -> None:
        both(df, batch_id)
        descriptions.append(df.sparkSession.sparkContext.getLocalProperty("spark.job.description"))

    query = run_available(stream(spark, log).writeStream.foreachBatch(handle).queryName("named"), tmp_path / "ck")

    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(at).description() for at in range(jobs.size())]
    shown = [str(one.get()) for one in described if one.isDefined()]
    ours = [text for text in shown if query.runId in text and "oncelog: " in text]
    assert {text.rpartition("<br/>")[2] for text in ours} >= {
        "oncelog: write of TogetherSink",
        "oncelog: commit of TogetherSink",
    }
    assert all("named" in text and "batch = " in text for text in ours)
    assert ["oncelog" in (text or "") for text in descriptions] == [False] * len(descriptions)
