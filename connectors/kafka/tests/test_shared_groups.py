"""A group that a sink, sources and others share: nobody goes by what is undecided, nor undoes what is decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from driven_batches import FIRST, World, progress
from oncelog.errors import BatchRefusedError
from oncelog.testing.target_contract import at
from oncelog_kafka.crash_points import KafkaCrashPoint
from reads import EARLIEST, Source, flat
from tests.support.connectors.kafka_sink import numbered
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, send

SOON_S = 1.0
"""Far longer than a look at a group takes; where the look comes later, there is nothing left to wait for."""


@contextmanager
def committed_soon(transaction: Transaction) -> Iterator[Timer]:
    """A timer whose start is the test's; the transaction is over when the block is."""
    timer = Timer(SOON_S, transaction.commit)
    yield timer
    timer.join()


def test_a_sink_waits_for_undecided_offsets_and_refuses_a_batch_that_starts_elsewhere_then(
    world: World, kafka: KafkaBroker
) -> None:
    """conformance: 45."""
    source, group = kafka.create_topic(fresh_name("source")), fresh_name("group")
    Transaction(kafka).stage(group, source, 10).commit()
    pending = Transaction(kafka).stage(group, source, 99)

    with (
        committed_soon(pending) as timer,
        at(KafkaCrashPoint.FENCE, timer.start),
        pytest.raises(BatchRefusedError) as error,
    ):
        world.run(0, FIRST, offsets=progress(group, {source: {0: 10}}, {source: {0: 20}}))

    assert error.value.fields["held_and_start"] == {f"{source}-0": (99, 10)}
    assert world.values() == []


def test_a_query_that_starts_where_the_group_is_goes_by_no_undecided_offsets(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """conformance: 45."""
    group = fresh_name("group")
    send(kafka, topic, *numbered(4))
    Transaction(kafka).stage(group, topic, 1).commit()
    pending = Transaction(kafka).stage(group, topic, 3)
    source = Source(spark, kafka, subscribe=topic, startingOffsets="group", groupId=group)
    impatient = {"kafka.default.api.timeout.ms": 8_000, "kafka.request.timeout.ms": 4_000, "fetchOffset.numRetries": 1}

    with pytest.raises(StreamingQueryException, match="the group's offsets cannot be read"):
        source.available(tmp_path / "checkpoint", **impatient)
    pending.commit()

    assert flat(source.available(tmp_path / "checkpoint")) == numbered(4)[3:]


def test_the_progress_that_a_source_tells_leaves_alone_what_a_sink_committed(
    world: World, spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    group = fresh_name("group")
    world.run(0, FIRST, offsets=progress(group, {}, {topic: {0: 100}}))
    source = Source(spark, kafka, subscribe=topic, groupId=group, **EARLIEST)

    with source.running(tmp_path / "checkpoint") as (query, _):
        for value in numbered(3):
            send(kafka, topic, value, partition=0)
            send(kafka, topic, value, partition=1)
            query.processAllAvailable()
        until(lambda: kafka.group_offsets(group).get((topic, 1), 0) >= 1)

    assert kafka.group_offsets(group)[topic, 0] == 100
