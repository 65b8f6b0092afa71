"""Brokers whose feature transaction.version is raised, or lowered, under the source and the sink.

The rows of batches before, in and after the change are there once, whatever the version that each transaction has.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog_kafka
from driven_batches import FIRST, SECOND, World
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_kafka import connections
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.participants import Participant
from tests.support.connectors.kafka_sink import committed, numbered
from tests.support.harness.waiting import until
from tests.support.servers.kafka import STEADY, TV1_FEATURES, KafkaBroker, Transaction, fresh_name, running_broker

FEATURE = "transaction.version"
THIRD = numbered(20, first=40)
FOURTH = numbered(20, first=60)


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder = tmp_path_factory.mktemp("rising")
    with running_broker(folder, settings=STEADY, features=TV1_FEATURES) as broker:
        yield broker


@pytest.fixture
def world(rising: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """Each test begins at version 1."""
    change(rising, to=1)
    found = World(spark, rising, tmp_path)
    yield found
    found.close()


def version_of(broker: KafkaBroker) -> int:
    with broker.admin() as admin:
        version: int = admin.describe_features()[FEATURE]["finalized"][1]
    return version


def change(broker: KafkaBroker, *, to: int) -> None:
    """Raise or lower the version, and wait until the broker goes by it."""
    before = version_of(broker)
    if before == to:
        return
    kind = "UPGRADE" if to > before else "SAFE_DOWNGRADE"
    with broker.admin() as admin:
        assert admin.update_features({FEATURE: (kind, to)}) == {FEATURE: "OK"}
    until(lambda: version_of(broker) == to)


def newest_participants(world: World) -> tuple[Participant, ...]:
    """Those of the last batch."""
    _, newest = max(KAFKA_LEDGERS.read_rounds(world.store, world.prefix).items())
    return newest.participants


def newest_versions(world: World) -> set[int]:
    """The transaction versions of the participants of the last batch."""
    return {participant.transaction_version for participant in newest_participants(world)}


# One batch, step by step ----------------------------------------------------------------------------------------------

POINTS = [
    (CrashPoint.SINK_PLANNED, False),
    (KafkaCrashPoint.WRITTEN, True),
    (CrashPoint.ROUND_DECIDED, True),
    (KafkaCrashPoint.ENDED, True),
]
"""Where the version changes in a batch, and whether the batch's transactions are open already."""


@pytest.mark.walk
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)], ids=["raised", "lowered"])
@pytest.mark.parametrize(("point", "is_open"), POINTS)
def test_a_version_that_changes_in_a_batch_leaves_each_batch_there_once(
    world: World, point: str, is_open: bool, before: int, after: int
) -> None:
    """Kept producers go on at version 2, like any client of Kafka's until it connects again. conformance: 68."""
    change(world.broker, to=before)
    target = world.target()
    world.run(0, FIRST, target=target)
    assert newest_versions(world) == {before}

    with at(point, partial(change, world.broker, to=after)):
        world.run(1, SECOND, target=target)
    assert newest_versions(world) == ({before} if is_open else {2})

    world.run(2, THIRD, target=target)
    assert newest_versions(world) == {2}

    world.run(3, FOURTH, run="run-2")
    assert newest_versions(world) == {after}
    assert world.values() == [*FIRST, *SECOND, *THIRD, *FOURTH]


@pytest.mark.walk
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)], ids=["raised", "lowered"])
@pytest.mark.parametrize("point", [CrashPoint.ROUND_DECIDED, KafkaCrashPoint.ENDED, KafkaCrashPoint.COMPLETE])
def test_what_a_driver_decided_is_committed_by_the_next_at_another_version(
    world: World, point: str, before: int, after: int
) -> None:
    """What was committed before is sent again, in the form of its own version.

    conformance: 68.
    """
    change(world.broker, to=before)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    change(world.broker, to=after)

    assert world.run(0, FIRST, run="run-2").is_replay
    world.run(1, SECOND, run="run-2")

    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.sampled("transaction versions that change")
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_is_sent_in_the_form_of_its_transactions_version_and_known_when_it_is_sent_again(
    world: World, version: int
) -> None:
    """The broker takes the form of version 2 at any time, and raises the epoch by it.

    conformance: 68.
    """
    change(world.broker, to=version)
    world.run(0, FIRST)
    participants = newest_participants(world)
    ids = [participant.transactional_id for participant in participants]
    until(lambda: {found.state for found in world.brokers.describe(ids).values()} == {"CompleteCommit"})

    described = world.brokers.describe(ids)
    assert {described[p.transactional_id].epoch - p.epoch for p in participants} == {version - 1}
    assert {answer for answer, _ in world.brokers.commit(participants)} == {"NONE"}


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)], ids=["raised", "lowered"])
def test_what_a_driver_left_undecided_is_aborted_at_another_version(world: World, before: int, after: int) -> None:
    """conformance: 68."""
    change(world.broker, to=before)
    with at(KafkaCrashPoint.WRITTEN, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    change(world.broker, to=after)

    world.run(0, FIRST, run="run-2")

    assert world.open_ids() == []
    assert world.values() == FIRST


@pytest.mark.sampled("transaction versions that change")
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)], ids=["raised", "lowered"])
def test_a_transaction_keeps_its_version_while_its_rows_are_written(world: World, before: int, after: int) -> None:
    """conformance: 68."""
    change(world.broker, to=before)
    slowly = "substr(reflect('java.lang.Thread', 'sleep', 10L), 0, 0)"
    row = f"CAST(concat('row-', lpad(id, 6, '0'), {slowly}) AS BINARY) AS value"
    seen_behind: list[set[str]] = []

    def change_halfway() -> None:
        until(lambda: len(world.open_ids()) == 1)
        change(world.broker, to=after)
        seen_behind.append(set(passed))

    changing = threading.Thread(target=change_halfway)
    with at(KafkaCrashPoint.WRITTEN, changing.join) as passed:
        changing.start()
        world.run(0, world.spark.range(0, 400, 1, 1).selectExpr(row))

    assert [KafkaCrashPoint.WRITTEN in points for points in seen_behind] == [False]
    assert newest_versions(world) == {before}
    assert world.values() == numbered(400)


# A query --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def query(world: World, tmp_path: Path) -> Iterator[tuple[StreamingQuery, str]]:
    """A query that copies a topic, both ends ours; and the topic."""
    source = world.broker.create_topic(fresh_name("source"), partitions=2)
    reader: dict[str, Any] = {
        "kafka.bootstrap.servers": world.broker.address,
        "subscribe": source,
        "startingOffsets": "earliest",
    }
    df = world.spark.readStream.format("oncelog-kafka").options(**reader).load().select("value")
    sink = oncelog_kafka.sink(**{**world.settings, "groupId": f"{source}.g"})
    running = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    yield running, source
    running.stop()
    connections.close_connections()


def test_a_query_goes_on_while_the_version_is_raised(world: World, query: tuple[StreamingQuery, str]) -> None:
    """Others write all the time; one of their transactions is open while the version is raised.

    conformance: 68.
    """
    running, source = query
    writer = Transaction(world.broker, fresh_name("writer")).send(source, "row-000000")
    writer.commit()
    running.processAllAvailable()
    assert newest_versions(world) == {1}

    held = Transaction(world.broker, fresh_name("held")).send(source, "row-000001", partition=1)
    raising = threading.Thread(target=partial(change, world.broker, to=2))
    for number in range(2, 40):
        if number == 10:
            raising.start()
        if number == 30:
            raising.join()
            held.commit()
        writer.begin_again().send(source, f"row-{number:06d}", partition=number % 2)
        writer.commit() if number % 5 else writer.abort()
        time.sleep(0.05)
    running.processAllAvailable()

    assert version_of(world.broker) == 2
    assert newest_versions(world) == {2}
    assert world.values() == [row for number, row in enumerate(numbered(40)) if number < 2 or number % 5]
    progress = running.lastProgress
    assert progress is not None
    (end,) = [json.loads(one.endOffset) for one in progress.sources]
    assert committed(world.broker, f"{source}.g", source) == {int(k): v for k, v in end[source].items()}
