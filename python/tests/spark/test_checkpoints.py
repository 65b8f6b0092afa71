"""Checkpoints of real queries: what `oncelog checkpoint` says of them, and that a query goes on from a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import oncelog
from oncelog.runtime import Log
from oncelog.spark.logs import close_logs
from tests.support.log.logs import values
from tests.support.log.shell import Shell
from tests.support.spark.queries import copy, forget_last_commit, stream

OPTIONS = {"transactionalIdPrefix": "copies"}


@pytest.fixture
def shell(log: Log, monkeypatch: pytest.MonkeyPatch) -> Shell:
    if log.znodes is not None:
        monkeypatch.setenv("ONCELOG_ZNODES", log.znodes)
    return Shell(Path(log.path))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "ck"


def write(log: Log, *numbers: int, topic: str = "in") -> None:
    producer = log.producer()
    for number in numbers:
        producer.send(topic, str(number).encode(), partition=0)
    producer.flush()


def written(log: Log) -> list[int]:
    """The numbers that are in the topic `out`."""
    return sorted(int(value or b"") for value in values(log, topic="out"))


def copy_numbers(
    spark: SparkSession, log: Log, checkpoint: Path, *, into: Log | None = None, topic: str = "in"
) -> None:
    df = stream(spark, log, topic).select("value")
    copy(df, into or log, "foreachBatch", checkpoint, **OPTIONS)


def fail_in_the_next_batch(spark: SparkSession, log: Log, checkpoint: Path) -> None:
    """Spark plans the next batch, and its sink gives up its round."""
    df = stream(spark, log).select(F.when(F.raise_error(F.lit("no")).isNull(), F.col("value")).alias("value"))
    with pytest.raises(StreamingQueryException):
        copy(df, log, "foreachBatch", checkpoint, **OPTIONS)


def fits(shell: Shell, checkpoint: Path) -> bool:
    found = shell.json("checkpoint", "verify", str(checkpoint))
    assert found["ledgers"] == ["copies"]
    return found["fits"] is True


@pytest.mark.every_spark
def test_what_a_query_leaves_fits_in_each_state_of_its_newest_batch(
    spark: SparkSession, log: Log, shell: Shell, checkpoint: Path
) -> None:
    write(log, 1, 2)
    copy_numbers(spark, log, checkpoint)
    shown = shell.json("checkpoint", "show", str(checkpoint))
    assert (shown["standing"], shown["checkpoint"]["sources"][0]["kind"]) == ("committed", "oncelog")
    assert fits(shell, checkpoint)

    write(log, 3)
    fail_in_the_next_batch(spark, log, checkpoint)
    assert shell.json("checkpoint", "show", str(checkpoint))["standing"] == "not decided"
    assert fits(shell, checkpoint)

    copy_numbers(spark, log, checkpoint)
    forget_last_commit(checkpoint)
    assert shell.json("checkpoint", "show", str(checkpoint))["standing"] == "decided"
    assert fits(shell, checkpoint)
    assert written(log) == [1, 2, 3]


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Log]:
    """Another log, to which the records of the first one are copied."""
    with oncelog.open(tmp_path / "copied", f"sqlite:{tmp_path}/copied.sqlite") as opened:
        opened.create_topic("in", partitions=2)
        yield opened
        close_logs()


def to(other: Log) -> list[str]:
    return ["--to-path", other.path, "--to-znodes", other.znodes or ""]


def stop_in(state: str, spark: SparkSession, log: Log, checkpoint: Path) -> None:
    """Have a query write its next batch, and die where that is in this state."""
    if state == "not decided":
        fail_in_the_next_batch(spark, log, checkpoint)
    else:
        copy_numbers(spark, log, checkpoint)
    if state == "decided":
        forget_last_commit(checkpoint)


@pytest.mark.sampled
@pytest.mark.parametrize("state", ["not decided", "decided", "committed"])
def test_a_query_goes_on_in_another_log_from_a_moved_checkpoint(
    spark: SparkSession, log: Log, copied: Log, shell: Shell, checkpoint: Path, tmp_path: Path, state: str
) -> None:
    for one in (log, copied):
        write(one, 1, 2)
    copy_numbers(spark, log, checkpoint)
    for one in (log, copied):
        write(one, 3)
    stop_in(state, spark, log, checkpoint)

    shell.json("checkpoint", "move", str(checkpoint), str(tmp_path / "new"), *to(copied))
    write(copied, 4)
    copy_numbers(spark, copied, tmp_path / "new", into=log)

    assert written(log) == [1, 2, 3, 4]


@pytest.mark.sampled
@pytest.mark.parametrize("state", ["not decided", "decided", "committed"])
def test_a_query_goes_on_in_a_topic_that_was_created_again_from_a_rebased_checkpoint(
    spark: SparkSession, log: Log, shell: Shell, checkpoint: Path, tmp_path: Path, state: str
) -> None:
    write(log, 1, 2)
    copy_numbers(spark, log, checkpoint)
    write(log, 3)
    stop_in(state, spark, log, checkpoint)
    log.admin.delete_topic("in")
    log.create_topic("in", partitions=2)
    write(log, 10)
    with pytest.raises(StreamingQueryException):
        copy_numbers(spark, log, checkpoint)

    loss = ["--accept-loss"] if state == "not decided" else []
    shell.json("checkpoint", "rebase", str(checkpoint), str(tmp_path / "new"), "--topic", "in", *loss)
    copy_numbers(spark, log, tmp_path / "new")
    write(log, 11)
    copy_numbers(spark, log, tmp_path / "new")

    assert written(log) == ([1, 2, 10, 11] if state == "not decided" else [1, 2, 3, 10, 11])


def test_a_query_with_state_goes_on_with_it_from_a_moved_checkpoint(
    spark: SparkSession, log: Log, copied: Log, shell: Shell, checkpoint: Path, tmp_path: Path
) -> None:
    def distinct(source: Log) -> DataFrame:
        return stream(spark, source).select("value").dropDuplicates()

    for one in (log, copied):
        write(one, 1, 2)
    copy(distinct(log), log, "foreachBatch", checkpoint, **OPTIONS)

    done = shell.json("checkpoint", "move", str(checkpoint), str(tmp_path / "new"), *to(copied))
    write(copied, 2, 3)
    copy(distinct(copied), log, "foreachBatch", tmp_path / "new", **OPTIONS)

    assert done["written"]["operators"] == ["0"]
    assert written(log) == [1, 2, 3]
