"""Tasks that outlive their batch or their driver: what they opened is aborted, their ids are fenced or used no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from driven_batches import FIRST, SECOND, World
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.participants import ParticipantId
from tests.support.connectors.kafka_sink import rows
from tests.support.servers.kafka import Transaction


def test_a_task_of_the_run_before_that_has_not_sent_yet_finds_itself_fenced(world: World) -> None:
    """It would leave a transaction open that nobody looks for any more, and hold back every reader.

    conformance: 54.
    """
    world.run(0, FIRST, run="run-1")
    late = Transaction(world.broker, str(ParticipantId(world.prefix, 0, 1, 0, 0)))

    world.run(1, SECOND, run="run-2")
    with suppress(KafkaException):
        late.send(world.topic, "late")

    assert world.open_ids() == []
    assert world.values() == [*FIRST, *SECOND]


def test_what_tasks_prepared_for_a_batch_that_fails_is_aborted_with_it(world: World) -> None:
    """Open transactions would hold back every reader until a restart, or until their time is up."""
    with at(KafkaCrashPoint.WRITTEN, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)

    assert world.open_ids() == []


@pytest.fixture(params=[False, True], ids=["alone", "with copies"])
def speculates(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    """Whether Spark makes copies of slow tasks: what its settings say, as a session of that kind costs a JVM."""
    settings = spark._jsparkSession.sessionState().conf()
    settings.setConfString("spark.speculation", str(request.param).lower())
    yield request.param
    settings.setConfString("spark.speculation", "false")


def test_a_copy_of_a_task_that_begins_behind_its_batch_has_an_id_that_no_later_batch_uses(
    world: World, speculates: bool
) -> None:
    target = world.target()
    for batch_id, texts in enumerate((FIRST, SECOND)):
        world.run(batch_id, rows(world.spark, texts, partitions=1), target=target)

    rounds = KAFKA_LEDGERS.read_rounds(world.store, world.prefix).values()
    used = [one.transactional_id for decided in rounds for one in decided.participants]
    assert len(used) == 2
    assert len(set(used)) == (2 if speculates else 1)
