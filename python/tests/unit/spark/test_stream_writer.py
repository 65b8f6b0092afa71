"""The sink's format, asked to commit without Spark: whose messages it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructType

import oncelog
from oncelog import limits
from oncelog.errors import BatchRefusedError, UnknownTopicError
from oncelog.log import generations
from oncelog.runtime import Log
from oncelog.spark.kit.options import Use
from oncelog.spark.logs import close_logs
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writer import BatchWriter, StreamWriter, TaskMessage
from oncelog.spark.writing import Written
from oncelog.znodes import paths
from tests.support.log.logs import TOPIC, values
from tests.support.log.rounds import PREFIX, written


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with oncelog.open(tmp_path / "log") as opened:
        opened.create_topic(TOPIC)
        yield opened
        close_logs()


@pytest.fixture
def writer(log: Log, tmp_path: Path) -> StreamWriter:
    """Of a query whose first batch is due."""
    (tmp_path / "ck" / "offsets").mkdir(parents=True)
    (tmp_path / "ck" / "metadata").write_text('{"id":"query"}')
    (tmp_path / "ck" / "offsets" / "0").write_text("v1\n{}\n7")
    given = {"path": log.path, "topic": TOPIC, "transactionalIdPrefix": PREFIX}
    options = parse_sink_options({**given, "checkpointLocation": str(tmp_path / "ck")}, Use.STREAM_WRITE)
    return StreamWriter(options, StructType().add("value", BinaryType()))


def message(log: Log, value: bytes, run_id: str | None) -> TaskMessage:
    """What a task of this run wrote."""
    (blocks,) = written(log, {0: [value]}).values()
    return TaskMessage([Written(TOPIC, 0, block) for block in blocks], "query", run_id, hold=f"{paths.HOLDS}/gone")


@pytest.mark.parametrize("runs", [("run-1", "run-2"), ("run-1", None), (None, None), ()])
def test_messages_of_no_run_or_of_several_are_no_batch(
    log: Log, writer: StreamWriter, runs: tuple[str | None, ...]
) -> None:
    with pytest.raises(BatchRefusedError, match="name no single run"):
        writer.commit([message(log, b"%d" % at, run) for at, run in enumerate(runs)], 0)

    assert values(log) == []


def test_what_the_tasks_of_one_run_wrote_is_one_batch_and_a_replay_of_it_by_the_next_run_is_nothing(
    log: Log, writer: StreamWriter
) -> None:
    for run in ("run-1", "run-2"):
        writer.commit([message(log, b"%d" % at, run) for at in range(3)], 0)

    assert values(log) == [b"0", b"1", b"2"]


class Job:
    """A write that Spark planned, and the message of its one task."""

    def __init__(self, log: Log, writer: StreamWriter | BatchWriter) -> None:
        self.writer = writer
        self.message = replace(message(log, b"slow", "run-1"), hold=writer._hold)
        if isinstance(writer, BatchWriter):
            self.message = replace(self.message, query_id=None, run_id=None)

    def commit(self) -> None:
        if isinstance(self.writer, BatchWriter):
            self.writer.commit([self.message])
        else:
            self.writer.commit([self.message], 0)

    def abort(self) -> None:
        if isinstance(self.writer, BatchWriter):
            self.writer.abort([self.message, None])
        else:
            self.writer.abort([self.message, None], 0)


@pytest.fixture(params=["stream", "batch"])
def job(request: pytest.FixtureRequest, log: Log) -> Job:
    if request.param == "stream":
        return Job(log, request.getfixturevalue("writer"))
    options = parse_sink_options({"path": log.path, "topic": TOPIC}, Use.BATCH_WRITE)
    return Job(log, BatchWriter(options, StructType().add("value", BinaryType()), overwrite=False))


def test_a_write_that_lasts_longer_than_two_collections_is_committed(
    log: Log, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GENERATION_MIN_AGE_MS", 0)
    collected = [log.admin.collect() for _ in range(4)]
    assert [hold.writer for hold in collected[-1].held_by] == [f"a write of Spark into {TOPIC}"]
    job.commit()

    assert values(log) == [b"slow"]
    assert log.services.store.children(paths.HOLDS) == []


def test_a_write_that_is_aborted_or_fails_holds_no_files_any_more(log: Log, job: Job) -> None:
    job.abort()
    assert log.services.store.children(paths.HOLDS) == []
    failing = Job(log, job.writer)
    log.admin.delete_topic(TOPIC)
    failing.message.hold = generations.hold(log.services.store, "a task's")
    with pytest.raises(UnknownTopicError):
        failing.commit()

    assert log.services.store.children(paths.HOLDS) == []


def test_a_stream_gives_back_what_its_stopped_runs_held_and_nothing_of_others(log: Log, writer: StreamWriter) -> None:
    """A batch that is stopped in its midst says nothing to anyone."""
    generations.hold(log.services.store, "a run that was stopped", writer._options.checkpoint_location or "")
    others = generations.hold(log.services.store, "another stream", "/another/ck")
    Job(log, writer).commit()

    assert [f"{paths.HOLDS}/{name}" for name in log.services.store.children(paths.HOLDS)] == [others]
