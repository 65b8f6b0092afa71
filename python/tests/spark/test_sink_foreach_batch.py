"""What is special about the sink as a function of foreachBatch: it runs in the user's process, beside his code."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oncelog.spark
from oncelog import crash_points, limits
from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from tests.support.harness.waiting import until
from tests.support.log.logs import numbered, started, state, values, write_committed
from tests.support.spark.faults import passed_on
from tests.support.spark.queries import copy, forget_last_commit, into, place, run_available, stream
from tests.support.spark.writers import writing_by

pytestmark = pytest.mark.sampled

PREFIX = {"transactionalIdPrefix": "copier"}


def write(log: Log, *sent: bytes) -> None:
    """Commit values to the topic that is copied, in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, topic="in")


@contextmanager
def at(point: CrashPoint, action: threading.Event | object) -> Iterator[None]:
    """Call `action` when this process, the driver, first comes to `point`."""
    is_due = threading.Lock()

    def act(reached: str) -> None:
        if reached is point and is_due.acquire(blocking=False):
            action()  # type: ignore[operator]

    crash_points.arm(act)
    try:
        yield
    finally:
        crash_points.arm(None)


# Several sinks in one function ----------------------------------------------------------------------------------------


def run_both(spark: SparkSession, log: Log, checkpoint: Path, *sinks: oncelog.spark.Sink) -> None:
    def write_all(df: DataFrame, batch_id: int) -> None:
        for sink in sinks:
            sink(df, batch_id)

    run_available(stream(spark, log).select("value").writeStream.foreachBatch(write_all), checkpoint)


@pytest.mark.parametrize("prefix", [{}, PREFIX])
def test_two_sinks_with_names_each_write_every_batch_once(
    spark: SparkSession, log: Log, tmp_path: Path, prefix: dict[str, str]
) -> None:
    log.create_topic("out-2")
    sinks = [
        oncelog.spark.sink(**place(log), topic="out", sinkName="one", **prefix),
        oncelog.spark.sink(**place(log), topic="out", sinkName="two", **prefix),
        oncelog.spark.sink(**place(log), topic="out-2", **prefix),
    ]
    for at in range(2):
        write(log, b"%d" % at)
        run_both(spark, log, tmp_path / "ck", *sinks)
    forget_last_commit(tmp_path / "ck")

    run_both(spark, log, tmp_path / "ck", *sinks)

    assert sorted(filter(None, values(log, topic="out"))) == [b"0", b"0", b"1", b"1"]
    assert values(log, topic="out-2") == [b"0", b"1"]


@pytest.mark.parametrize("topic", ["out", "out-2"])
def test_two_sinks_without_names_are_refused_and_nothing_is_written_twice(
    spark: SparkSession, log: Log, tmp_path: Path, topic: str
) -> None:
    log.create_topic("out-2")
    write(log, b"a")
    sinks = [oncelog.spark.sink(**place(log), topic=name) for name in ("out", topic)]

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="give each its own sinkName"):
            run_both(spark, log, tmp_path / "ck", *sinks)

    assert values(log, topic="out-2") == []
    run_both(spark, log, tmp_path / "ck", sinks[0])
    assert values(log, topic="out") == [b"a"]


# One call for a batch -------------------------------------------------------------------------------------------------


def lines(spark: SparkSession, folder: Path, *sent: str) -> DataFrame:
    """A stream of the files in a folder, with one more file of these lines; a batch for each file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{len(list(folder.iterdir()))}.txt").write_text("\n".join(sent))
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def even_and_odd(df: DataFrame) -> tuple[DataFrame, DataFrame]:
    is_even = "CAST(value AS INT) % 2 = 0"
    return df.where(is_even), df.where(f"NOT ({is_even})")


@pytest.mark.every_spark
@pytest.mark.parametrize("is_together", [False, True], ids=["alone", "together"])
def test_a_sink_that_is_called_twice_in_a_batch_is_refused_in_every_run(
    spark: SparkSession, log: Log, tmp_path: Path, is_together: bool
) -> None:
    """A replay that took both calls for the one that was written would lose the rows of the second one."""
    log.create_topic("out-2")
    sink = oncelog.spark.sink(**place(log), topic="out")
    other = oncelog.spark.sink(**place(log), topic="out-2", sinkName="other")
    called = oncelog.spark.together(sink, other) if is_together else sink

    def write_parts(df: DataFrame, batch_id: int) -> None:
        for part in even_and_odd(df):
            called(part, batch_id)

    rows = lines(spark, tmp_path / "in", "0", "1", "2", "3")
    for _ in range(3):
        with pytest.raises(StreamingQueryException, match="already written in this run, with the rows of the first"):
            run_available(rows.writeStream.foreachBatch(write_parts), tmp_path / "ck")
        assert sorted(filter(None, values(log, topic="out"))) == [b"0", b"2"]

    rows = lines(spark, tmp_path / "in", "4", "5")
    run_available(rows.writeStream.foreachBatch(called), tmp_path / "ck")
    assert sorted(filter(None, values(log, topic="out"))) == [b"0", b"2", b"4", b"5"]


@pytest.mark.every_spark
def test_a_sink_that_is_given_another_batch_id_writes_nothing(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """With the id of a batch that was written, all later rows would count as its replay."""
    sink = oncelog.spark.sink(**place(log), topic="out")

    def write_as_zero(df: DataFrame, batch_id: int) -> None:
        sink(df, 0)

    rows = lines(spark, tmp_path / "in", "a")
    run_available(rows.writeStream.foreachBatch(write_as_zero), tmp_path / "ck")
    rows = lines(spark, tmp_path / "in", "b")
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="not the id of the batch that Spark is running"):
            run_available(rows.writeStream.foreachBatch(write_as_zero), tmp_path / "ck")
    assert values(log, topic="out") == [b"a"]

    run_available(rows.writeStream.foreachBatch(sink), tmp_path / "ck")
    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b"]


@pytest.mark.every_spark
@pytest.mark.parametrize("writer", ["jvm", "python"])
def test_a_batch_write_in_a_foreach_batch_function_is_refused(
    spark: SparkSession, log: Log, tmp_path: Path, writer: str
) -> None:
    """A failure after it would make Spark run the batch again, which appends its rows again."""

    def write_by_name(df: DataFrame, batch_id: int) -> None:
        df.write.format("oncelog").options(**place(log), topic="out").mode("append").save()

    rows = lines(spark, tmp_path / "in", "a", "b").repartition(2)
    with writing_by(spark, writer):
        for _ in range(2):
            with pytest.raises(StreamingQueryException, match=r"not exactly once.*call oncelog\.spark\.sink"):
                run_available(rows.writeStream.foreachBatch(write_by_name), tmp_path / "ck")
    assert values(log, topic="out") == []

    run_available(rows.writeStream.foreachBatch(oncelog.spark.sink(**place(log), topic="out")), tmp_path / "ck")
    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b"]


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_batch_id_is_compared_in_a_thread_of_the_users_own_too(
    spark: SparkSession, log: Log, tmp_path: Path, ahead: int
) -> None:
    sink = oncelog.spark.sink(**place(log), topic="out")

    def write_in_a_thread(df: DataFrame, batch_id: int) -> None:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(sink, df, batch_id + ahead).result()

    writer = lines(spark, tmp_path / "in", "a").writeStream.foreachBatch(write_in_a_thread)
    if ahead:
        with pytest.raises(StreamingQueryException, match="not the id of the batch that Spark is running"):
            run_available(writer, tmp_path / "ck")
    else:
        run_available(writer, tmp_path / "ck")
    assert values(log, topic="out") == ([] if ahead else [b"a"])


# What people are told -------------------------------------------------------------------------------------------------


def test_a_sink_without_a_prefix_warns_once_a_start_and_names_one_that_keeps_its_history(
    spark: SparkSession, log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("a", "b", "c"):
        rows = lines(spark, tmp_path / "in", text)
    sink = oncelog.spark.sink(**place(log), topic="out")
    query = run_available(rows.writeStream.foreachBatch(sink), tmp_path / "ck")

    (warning,) = [record.getMessage() for record in caplog.records if "transactionalIdPrefix" in record.getMessage()]
    prefix = warning.rpartition("transactionalIdPrefix=")[2]
    assert prefix == query.id

    caplog.clear()
    named = oncelog.spark.sink(**place(log), topic="out", transactionalIdPrefix=prefix)
    forget_last_commit(tmp_path / "ck")
    run_available(rows.writeStream.foreachBatch(named), tmp_path / "ck")
    assert [record for record in caplog.records if "transactionalIdPrefix" in record.getMessage()] == []
    with pytest.raises(StreamingQueryException, match="this query has begun a new checkpoint"):
        run_available(rows.writeStream.foreachBatch(named), tmp_path / "new")
    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b", b"c"]


def test_an_error_is_logged_in_one_line_of_its_own(
    spark: SparkSession, log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = lines(spark, tmp_path / "in", "a").selectExpr("value AS other")
    with pytest.raises(StreamingQueryException):
        run_available(rows.writeStream.foreachBatch(oncelog.spark.sink(**place(log), topic="out")), tmp_path / "ck")

    (line,) = [record.getMessage() for record in caplog.records if record.name == "oncelog.spark.sink"]
    assert line.startswith("InvalidRecordError: the rows lack a column of the sink")
    assert "\n" not in line


# The driver's process -------------------------------------------------------------------------------------------------


def test_a_sink_reports_what_it_did(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    write(log, *numbered("a", 5))
    sink = oncelog.spark.sink(**place(log), topic="out")
    reports = []

    def keep(df: DataFrame, batch_id: int) -> None:
        sink(df, batch_id)
        reports.append(sink.last_report)

    run_available(stream(spark, log).writeStream.foreachBatch(keep), tmp_path / "ck")
    forget_last_commit(tmp_path / "ck")
    run_available(stream(spark, log).writeStream.foreachBatch(keep), tmp_path / "ck")

    found = [(report.batch_id, report.rows, report.is_replay) for report in reports if report]
    assert found[:3] == [(0, 0, False), (1, 5, False), (1, 0, True)]  # a batch may follow that passes the marker
    assert reports[1] is not None
    assert reports[1].size_bytes == sum(found.size_bytes for found in log.admin.describe_topic("out").partitions)


def test_a_sink_that_was_pickled_goes_on(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    sink = oncelog.spark.sink(**place(log), topic="out")
    write(log, b"a")
    run_available(stream(spark, log).writeStream.foreachBatch(sink), tmp_path / "ck")
    write(log, b"b")

    run_available(stream(spark, log).writeStream.foreachBatch(pickle.loads(pickle.dumps(sink))), tmp_path / "ck")

    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b"]


def test_a_round_that_an_operator_aborts_is_written_anew(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """conformance: 56."""
    copy(stream(spark, log), log, "foreachBatch", tmp_path / "ck", **PREFIX)
    write(log, *numbered("a", 5))

    point = passed_on(log, CrashPoint.ROUND_APPENDED)
    with at(point, lambda: log.admin.abort_round("copier")):
        copy(stream(spark, log), log, "foreachBatch", tmp_path / "ck", **PREFIX)

    assert values(log, topic="out") == numbered("a", 5)
    is_appended = point is CrashPoint.ROUND_APPENDED
    assert (state(log, 0, "out").log_end > 6) is is_appended, "the aborted rows are there, and nobody sees them"


def test_a_stopped_query_whose_function_runs_on_decides_its_batch_once(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Spark interrupts its own thread; the user's function goes on."""
    write(log, *numbered("a", 5))
    is_reached, may_go_on = threading.Event(), threading.Event()

    def pause() -> None:
        is_reached.set()
        assert may_go_on.wait(60)

    with at(CrashPoint.ROUND_DECIDE, pause):
        writer = into(stream(spark, log), log, "foreachBatch", **PREFIX)
        query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
        assert is_reached.wait(60)
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        may_go_on.set()
        stopping.join()
    until(lambda: log.admin.find_hanging(max_age_ms=0) == [])

    copy(stream(spark, log), log, "foreachBatch", tmp_path / "ck", **PREFIX)

    assert values(log, topic="out") == numbered("a", 5)


def test_a_partition_that_lists_too_many_rounds_is_settled_and_written(
    spark: SparkSession, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_UNSETTLED_OWNERS", 2)
    for number in range(4):  # each time a driver that never looked at the lists before
        write(log, b"%d" % number)
        copy(stream(spark, log), log, "foreachBatch", tmp_path / "ck", **PREFIX)

    assert values(log, topic="out") == [b"0", b"1", b"2", b"3"]


# Any plan and source --------------------------------------------------------------------------------------------------


def test_batches_of_any_source_and_plan_are_written_once(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """A stateful plan over another source: its batches carry the same rows again only because Spark's state says so."""
    (tmp_path / "data").mkdir()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "data"))
    counts = lines.groupBy("value").count().selectExpr("value AS key", "CAST(count AS STRING) AS value")

    def run() -> None:
        writer = counts.writeStream.outputMode("update").foreachBatch(oncelog.spark.sink(**place(log), topic="out"))
        run_available(writer, tmp_path / "ck")

    for number in range(2):
        (tmp_path / "data" / f"{number}.txt").write_text("x\ny\n" if number else "x\n")
        run()
    forget_last_commit(tmp_path / "ck")
    run()

    assert sorted(filter(None, values(log, topic="out"))) == [b"1", b"1", b"2"]
