"""What is wrong is refused with an error that names it: nothing is written or lost, and what is mended goes on."""

from __future__ import annotations

import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import oncelog
from oncelog.errors import OncelogError, UsageError
from oncelog.log import generations
from oncelog.runtime import Log
from oncelog.spark import schema
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import write_task
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import run_job
from tests.support.harness.variants import variants
from tests.support.log.logs import numbered, started, values, write_committed
from tests.support.spark.queries import DOORS, copy, read_available, stream, table

pytestmark = pytest.mark.sampled("refused options")

REFUSALS = (OncelogError, PySparkException)
"""Ours where Python meets it first; else Spark's, with our text in it."""

# Sinks ----------------------------------------------------------------------------------------------------------------

Change = Callable[[DataFrame], DataFrame]


def select(*columns: str) -> Change:
    """Other columns than the one, value, that the sink needs."""
    return lambda rows: rows.selectExpr(*columns)


ROWS: dict[str, tuple[Change, dict[str, object], list[str]]] = {
    "a record over the limit": (
        select("repeat('x', 17 * 1024 * 1024) AS value"), {},
        ["RecordTooLargeError", "size_bytes=17825792", "maximum=16777216"]),
    "no column value": (
        select("value AS payload"), {},
        ["the rows lack a column of the sink", "column='value'", "found=['payload']"]),
    "a value that is a number": (
        select("1 AS value"), {},
        ["a column has a wrong type; cast it", "column='value'", "found='int'", "binary or string"]),
    "a key that is a number": (
        select("value", "1 AS key"), {}, ["a column has a wrong type; cast it", "column='key'"]),
    "headers that are a map": (
        select("value", "map('a', value) AS headers"), {},
        ["a column has a wrong type; cast it", "column='headers'", "array<struct<key:string,value:binary>>"]),
    "a timestamp that is a number": (
        select("value", "1 AS timestamp"), {}, ["a column has a wrong type; cast it", "column='timestamp'"]),
    "a topic for no row": (
        select("value"), {"topic": None}, ["the rows lack a column of the sink", "column='topic'"]),
    "a row without a topic": (
        select("value", "CAST(null AS STRING) AS topic"), {"topic": None},
        ["a row names no topic"]),
    "a topic that does not exist": (
        select("value"), {"topic": "nowhere"}, ["UnknownTopicError", "topic='nowhere'"]),
    "a row's topic that does not exist": (
        select("value", "'nowhere' AS topic"), {"topic": None},
        ["a row names a topic that does not exist", "topic='nowhere'"]),
    "a partition out of range": (
        select("value", "2 AS partition"), {},
        ["a row names a partition that the topic does not have", "topic='out', partition=2, partitions=2"]),
    "a negative partition": (
        select("value", "-1 AS partition"), {},
        ["a row names a partition that the topic does not have", "partition=-1"]),
    "an unknown option": (
        select("value"), {"topics": "out"}, ["unknown option", "option='topics'", "did_you_mean='topic'"]),
    "an option of Spark's Kafka sink": (
        select("value"), {"kafka.transactional.id": "x"},
        ["unknown option", "did_you_mean='transactionalIdPrefix'"]),
    "an option of the source": (
        select("value"), {"subscribe": "in"}, ["the option does not apply here", "option='subscribe'"]),
    "a prefix like a transactional id": (
        select("value"), {"transactionalIdPrefix": "copier-0"}, ["transactionalIdPrefix", "malformed"]),
    "a group without a prefix": (
        select("value"), {"groupId": "g"}, ["missing='transactionalIdPrefix'"]),
    "a takeover without a prefix": (
        select("value"), {"takeover": "q"}, ["missing='transactionalIdPrefix'"]),
    "an unknown codec": (
        select("value"), {"codec": "zip"}, ["null, lz4, zstd", "value='zip'"]),
    "a path without a log": (
        select("value"), {"path": "{}/elsewhere"}, ["there is no log here", "elsewhere"]),
}  # fmt: skip


def two_lines(spark: SparkSession, folder: Path) -> DataFrame:
    (folder / "data").mkdir()
    (folder / "data" / "lines").write_text("a\nb\n")
    return spark.readStream.format("text").load(str(folder / "data"))


@pytest.mark.parametrize("door", variants(*DOORS))
@pytest.mark.parametrize("case", ROWS)
def test_a_sink_refuses(spark: SparkSession, log: Log, tmp_path: Path, door: str, case: str) -> None:
    """conformance: 63."""
    change, options, expected = ROWS[case]
    options = {name: str(value).format(tmp_path) if value else None for name, value in options.items()}
    lines = two_lines(spark, tmp_path)

    with pytest.raises(REFUSALS) as caught:
        copy(change(lines), log, door, tmp_path / "ck", **options)

    assert [text for text in expected if text not in str(caught.value)] == [], str(caught.value)
    assert [found.log_end for found in log.admin.describe_topic("out").partitions] == [0, 0]


@pytest.mark.parametrize("door", variants(*DOORS))
@pytest.mark.parametrize("case", ["a key that is a number", "a row's topic that does not exist"])
def test_a_query_that_was_refused_goes_on_when_it_is_mended(
    spark: SparkSession, log: Log, tmp_path: Path, door: str, case: str
) -> None:
    """One that the driver refuses before the tasks run, and one that a task refuses."""
    change, options, _ = ROWS[case]
    lines = two_lines(spark, tmp_path)
    with pytest.raises(REFUSALS):
        copy(change(lines), log, door, tmp_path / "ck", **options)

    copy(lines, log, door, tmp_path / "ck")

    assert sorted(filter(None, values(log, topic="out"))) == [b"a", b"b"]


def bare_python(folder: Path) -> str:
    """An interpreter that has no packages."""
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python")


WORKERS: dict[str, tuple[str, Callable[[Path], str], str]] = {
    "none there": ("pythonExec", lambda folder: "/not/there", "have no Python at this path; .* \\[path='/not/there'"),
    "without packages": ("pythonExec", bare_python, "has no such module; install oncelog there, .* \\[module='"),
    "of another version": ("pythonVer", lambda folder: "3.9", "run another Python than its driver.* driver='3.9'"),
}


@pytest.mark.parametrize("case", WORKERS)
def test_what_is_wrong_with_the_executors_python_is_one_sentence(
    spark: SparkSession, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    setting, value, problem = WORKERS[case]
    monkeypatch.setattr(spark.sparkContext, setting, value(tmp_path / "python"))
    task = write_task(log, parse_sink_options({"path": log.path, "topic": "out"}, Use.FOREACH_BATCH))

    with pytest.raises(UsageError, match=problem):
        run_job(schema.to_sink_columns(spark.sql("SELECT 'a' AS value"), "out"), task)


# Sources --------------------------------------------------------------------------------------------------------------

READS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown option": (
        {"startingOffset": "earliest"}, ["unknown option", "did_you_mean='startingOffsets'"]),
    "a topic that does not exist": (
        {"subscribe": "in,nowhere"}, ["UnknownTopicError", "topic='nowhere'"]),
    "a partition out of range": (
        {"subscribe": None, "assign": '{"in":[0,2]}'}, ["UnknownPartitionError", "partition=2, partitions=2"]),
    "an offset beyond the log": (
        {"startingOffsets": '{"in":{"0":99,"1":0}}'},
        ["the option names an offset outside the log", "partition=0, offset=99, log_start=0"]),
    "offsets of some partitions only": (
        {"startingOffsets": '{"in":{"0":0}}'},
        ["must name exactly the partitions that are read", "missing=['in-1']"]),
    "offsets that are no JSON": (
        {"startingOffsets": "{0:1}"}, ["the option's value is malformed", "option='startingOffsets'"]),
    "a time after the last record": (
        {"startingTimestamp": 99_999_999_999_999}, ["no record is at or after the given time", "topic='in'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", READS)
def test_a_read_refuses(spark: SparkSession, log: Log, case: str) -> None:
    options, expected = READS[case]
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3), topic="in")

    with pytest.raises(REFUSALS) as caught:
        table(spark, log, **options).collect()

    assert [text for text in expected if text not in str(caught.value)] == [], str(caught.value)


STREAMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown option": READS["an unknown option"],
    "an option of batch reads": (
        {"endingOffsets": "latest"}, ["the option does not apply here", "option='endingOffsets'"]),
    "a topic that does not exist": READS["a topic that does not exist"],
    "an offset beyond the log": READS["an offset beyond the log"],
    "fewer rows at least than at most": (
        {"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 4},
        ["minOffsetsPerTrigger is above maxOffsetsPerTrigger"]),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_refuses_and_goes_on_when_it_is_mended(
    spark: SparkSession, log: Log, tmp_path: Path, case: str
) -> None:
    options, expected = STREAMS[case]
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3), topic="in")

    with pytest.raises(REFUSALS) as caught:
        read_available(stream(spark, log, **options), tmp_path / "ck")

    assert [text for text in expected if text not in str(caught.value)] == [], str(caught.value)
    assert read_available(stream(spark, log), tmp_path / "ck").values() == numbered("a", 3)


def test_a_checkpoint_of_another_log_is_refused(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    read_available(stream(spark, log), tmp_path / "ck")
    with oncelog.open(tmp_path / "other") as other:
        other.create_topic("in", partitions=2)

    with pytest.raises(REFUSALS, match="the checkpoint belongs to another log"):
        read_available(stream(spark, log, path=str(tmp_path / "other"), znodes="sqlite"), tmp_path / "ck")


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: None, "a data file that the index names is gone"),
        (lambda data: data[:-20], "CorruptDataError"),
        (lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:], "CorruptDataError"),
    ],
    ids=["deleted", "cut off", "a flipped bit"],
)
def test_a_damaged_data_file_is_an_error_that_names_it(
    spark: SparkSession, log: Log, damage: Callable[[bytes], bytes | None], text: str
) -> None:
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3), topic="in")
    (file,) = Path(log.path, generations.DATA).glob("**/*.avro")
    whole = file.read_bytes()
    damaged = damage(whole)
    file.unlink()
    if damaged is not None:
        file.write_bytes(damaged)

    with pytest.raises(REFUSALS) as caught:
        table(spark, log).collect()

    assert text in str(caught.value)
    assert file.name in str(caught.value)
    file.write_bytes(whole)
    assert table(spark, log).count() == 3
