"""The sink's format, asked to commit without Spark: whose messages it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructType

import oncelog
from oncelog.errors import BatchRefusedError
from oncelog.runtime import Log
from oncelog.spark.logs import close_logs
from oncelog.spark.option_table import Use
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writer import StreamWriter, TaskMessage
from oncelog.spark.writing import Written
from tests.logs import TOPIC, values
from tests.rounds import PREFIX, written


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
    return TaskMessage([Written(TOPIC, 0, block) for block in blocks], "query", run_id)


@pytest.mark.parametrize("runs", [("run-1", "run-2"), ("run-1", None), (None, None), ()])
def test_messages_of_no_run_or_of_several_are_no_batch(
    log: Log, writer: StreamWriter, runs: tuple[str | None, ...]
) -> None:
    with pytest.raises(BatchRefusedError, match="name no run"):
        writer.commit([message(log, b"%d" % at, run) for at, run in enumerate(runs)], 0)

    assert values(log) == []


def test_what_the_tasks_of_one_run_wrote_is_one_batch_and_a_replay_of_it_by_the_next_run_is_nothing(
    log: Log, writer: StreamWriter
) -> None:
    for run in ("run-1", "run-2"):
        writer.commit([message(log, b"%d" % at, run) for at in range(3)], 0)

    assert values(log) == [b"0", b"1", b"2"]
