"""Offsets between a partition's last stable offset and its end: their records are there, in an open transaction.

A query that is there waits for the transaction's end. Only an offset beyond the log's end is a loss.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from oncelog.cli import main
from reads import EARLIEST, Source, flat, write_sparks_checkpoint
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, send

ORDERS = ["o-1", "o-2", "o-3"]
"""Committed before the transaction that stays open, at the offsets 0 to 2. Its two records follow, then one more."""

AT, LOG_END = 5, 6
"""Where the reads start: after the open transaction's records. The last stable offset is 3."""


@pytest.fixture
def name(kafka: KafkaBroker) -> str:
    return kafka.create_topic(fresh_name("held"))


@pytest.fixture
def source(spark: SparkSession, kafka: KafkaBroker, name: str) -> Source:
    return Source(spark, kafka, subscribe=name)


@pytest.fixture
def held(kafka: KafkaBroker, name: str) -> Transaction:
    send(kafka, name, *ORDERS)
    transaction = Transaction(kafka).send(name, "held-1", "held-2")
    send(kafka, name, "o-4")
    return transaction


def offsets(name: str, offset: int) -> str:
    return json.dumps({name: {"0": offset}})


def problems(kafka: KafkaBroker, checkpoint: Path) -> list[str]:
    """What `checkpoint verify` finds."""
    words = ["kafka", "checkpoint", "verify", str(checkpoint), "--brokers", kafka.address, "--json"]
    return [one["problem"] for one in json.loads(CliRunner().invoke(main, words).stdout)["findings"]]


@pytest.mark.every_spark
@pytest.mark.parametrize("start", ["offsets", "group", "checkpoint"])
def test_a_stream_that_is_behind_an_open_transaction_waits_for_it(
    source: Source, kafka: KafkaBroker, name: str, held: Transaction, checkpoint: Path, start: str
) -> None:
    options: dict[str, Any] = {"startingOffsets": offsets(name, AT)}
    if start == "group":
        group = fresh_name("group")
        kafka.commit_group_offset(group, name, 0, offset=AT)
        options = {"startingOffsets": "group", "groupId": group}
    elif start == "checkpoint":
        write_sparks_checkpoint(checkpoint, {name: {"0": 0}}, {name: {"0": AT}})
        assert problems(kafka, checkpoint) == []

    assert flat(source.available(checkpoint, **options)) == []
    with source.running(checkpoint, **options) as (query, batches):
        until(lambda: query.lastProgress is not None)
        assert flat(batches) == []
        held.commit()
        until(lambda: flat(batches) == ["o-4"])


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_planned_batch_that_ends_in_an_open_transaction_runs_when_that_ends(
    source: Source, kafka: KafkaBroker, name: str, held: Transaction, checkpoint: Path, is_committed: bool
) -> None:
    """Spark's own source plans up to the log's end, and its tasks do not wait. Ours would fail after their time-out."""
    write_sparks_checkpoint(checkpoint, {name: {"0": 0}}, {name: {"0": LOG_END}})
    (checkpoint / "commits" / "0").unlink()
    assert problems(kafka, checkpoint) == []

    impatient: dict[str, Any] = {**EARLIEST, "kafkaConsumer.pollTimeoutMs": 1000}
    with source.running(checkpoint, **impatient) as (query, batches):
        until(lambda: query.isActive and "Processing" in query.status["message"])
        query.awaitTermination(4)
        assert (query.exception(), batches) == (None, [])
        if is_committed:
            held.commit()
        else:
            held.abort()
        until(lambda: batches)
    assert flat(batches) == [*ORDERS, *(["held-1", "held-2"] if is_committed else []), "o-4"]


def test_a_query_that_waits_for_an_open_transaction_can_be_stopped(
    source: Source, name: str, held: Transaction, checkpoint: Path
) -> None:
    write_sparks_checkpoint(checkpoint, {name: {"0": 0}}, {name: {"0": LOG_END}})
    (checkpoint / "commits" / "0").unlink()
    with source.running(checkpoint, **EARLIEST) as (query, batches):
        query.awaitTermination(3)
    held.abort()

    assert (query.exception(), batches) == (None, [])


def test_a_batch_read_that_starts_in_an_open_transaction_has_no_rows_yet(
    source: Source, kafka: KafkaBroker, name: str, held: Transaction
) -> None:
    group = fresh_name("group")
    kafka.commit_group_offset(group, name, 0, offset=AT)
    starts: list[dict[str, Any]] = [
        {"startingOffsets": offsets(name, AT)},
        {"startingOffsets": offsets(name, LOG_END)},
        {"startingOffsets": offsets(name, AT), "endingOffsets": offsets(name, -1)},
        {"startingOffsets": "group", "groupId": group},
    ]

    assert [source.values(**one) for one in starts] == [[], [], [], []]
    held.commit()
    until(lambda: [source.values(**one) for one in starts] == [["o-4"], [], ["o-4"], ["o-4"]])


def test_a_start_at_a_time_is_found_in_an_open_transaction(
    source: Source, kafka: KafkaBroker, name: str, checkpoint: Path
) -> None:
    send(kafka, name, "early", timestamps_ms=[1000])
    held = Transaction(kafka).send(name, "held")
    at = {"startingTimestamp": 2000}

    assert source.values(**at) == []
    assert flat(source.available(checkpoint, **at)) == []
    held.commit()
    until(lambda: source.values(**at) == ["held"])
    assert flat(source.available(checkpoint, **at)) == ["held"]


@pytest.mark.parametrize("beyond", [1, 1000])
def test_an_offset_beyond_the_end_of_a_log_with_an_open_transaction_is_a_loss(
    source: Source, kafka: KafkaBroker, name: str, held: Transaction, checkpoint: Path, beyond: int
) -> None:
    after = LOG_END + beyond
    quick = {"fetchOffset.retryIntervalMs": 10}
    lost = rf"log ends before an offset that was read or planned.*offset={after}, log end={LOG_END}"
    write_sparks_checkpoint(checkpoint, {name: {"0": 0}}, {name: {"0": after}})
    with pytest.raises(StreamingQueryException, match=lost):
        source.available(checkpoint, **EARLIEST, **quick)
    with pytest.raises(StreamingQueryException, match=lost):
        source.available(checkpoint.with_name("new"), startingOffsets=offsets(name, after), **quick)
    assert problems(kafka, checkpoint) == ["offset is beyond the end"]
    (checkpoint / "commits" / "0").unlink()
    with pytest.raises(StreamingQueryException, match=lost):
        source.available(checkpoint, **EARLIEST, **quick)
    with pytest.raises(Exception, match=rf"the read starts after its end.*start={after}, end={LOG_END}"):
        source.values(startingOffsets=offsets(name, after))
    held.abort()


def test_a_reader_of_uncommitted_rows_does_not_wait(
    source: Source, name: str, held: Transaction, checkpoint: Path
) -> None:
    write_sparks_checkpoint(checkpoint, {name: {"0": 0}}, {name: {"0": 4}})
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}

    assert flat(source.available(checkpoint, **uncommitted)) == ["held-2", "o-4"]
    assert source.values(startingOffsets=offsets(name, AT), **uncommitted) == ["o-4"]
    held.abort()
