"""Others change partitions while a batch's transactions are open: the batch is written again, and no row is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin._transactions import AbortTransactionSpec
from kafka.structs import TopicPartition
from pyspark.sql import SparkSession

from driven_batches import FIRST, REWRITE, SECOND, World, progress
from oncelog.batches.attempt import Batch
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.errors import NotPreparedError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection, repair
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.options.sink_options import parse
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.jobs import Job
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_sink import committed, rows
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims

GROUPS = "__consumer_offsets"


@pytest.fixture
def world(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    found = World(spark, broker, tmp_path)
    yield found
    found.close()


@pytest.fixture
def world_tv2(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """Version 1 cannot tell a transaction from one that a late request began with the same epoch."""
    found = World(spark, kafka, tmp_path)
    yield found
    found.close()


def abort_in(world: World, topic: str = "") -> None:
    """Abort one of the sink's open transactions in one partition, as `kafka-transactions.sh abort` does."""
    topic = topic or world.topic
    producers = {one.producer_id for one in world.brokers.describe(world.open_ids()).values()}
    with world.broker.admin() as admin:
        count = len(admin.describe_topics([topic])[0]["partitions"])
        places = [TopicPartition(topic, number) for number in range(count)]
        for place, found in admin.describe_producers(places).items():
            for one in found.active_producers:
                if one.producer_id in producers and one.current_transaction_start_offset >= 0:
                    who = one.producer_id, one.producer_epoch, one.coordinator_epoch
                    admin.abort_transaction(AbortTransactionSpec(place, *who))
                    return
    raise AssertionError(f"no transaction is open in {topic}")


def delete_records(world: World) -> None:
    with world.broker.admin() as admin:
        admin.delete_records({TopicPartition(world.topic, number): -1 for number in range(2)})


def create_again(world: World) -> None:
    world.broker.delete_topic(world.topic)
    world.broker.create_topic(world.topic, partitions=2)


def test_a_batch_is_not_decided_if_a_transaction_was_aborted_in_one_partition(world: World) -> None:
    """conformance: 53."""
    with (
        at(KafkaCrashPoint.WRITTEN, lambda: abort_in(world)),
        pytest.raises(NotPreparedError, match=f"was ended in {world.topic}-[01]"),
    ):
        world.run(0, FIRST)
    assert world.values() == []

    world.run(0, FIRST, run="run-2")
    assert world.values() == FIRST


def test_a_batch_without_state_is_run_again_at_once(world: World) -> None:
    batch: Batch[Job] = Batch(world.request(0, "run-1"), SparkJob(rows(world.spark, FIRST)), is_repeatable=True)
    with at(KafkaCrashPoint.WRITTEN, lambda: abort_in(world)):
        BatchDriver(world.target()).run(batch)

    assert world.values() == FIRST
    assert world.open_ids() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [(create_again, "deleted and created again"), (delete_records, "were deleted before they were committed")],
)
def test_a_batch_is_not_decided_if_its_rows_are_gone(
    world: World, change: Callable[[World], None], reason: str
) -> None:
    target = world.target()
    with at(KafkaCrashPoint.WRITTEN, lambda: change(world)), pytest.raises(NotPreparedError, match=reason):
        world.run(0, FIRST, target=target)

    world.run(0, FIRST, run="run-2")
    assert world.values() == FIRST


@pytest.mark.parametrize(
    ("change", "reason"),
    [(abort_in, "was ended in"), (create_again, "deleted and created again"), (delete_records, "were deleted")],
)
def test_javas_client_notices_it_too(world: World, change: Callable[[World], None], reason: str) -> None:
    require_shims()
    with closing(Brokers(JavaClient({"bootstrap.servers": world.broker.address}))) as brokers:
        target = KafkaTarget(world.store, brokers, world.target().options)
        world.run(0, FIRST, target=target)
        with at(KafkaCrashPoint.WRITTEN, lambda: change(world)), pytest.raises(NotPreparedError, match=reason):
            world.run(1, SECOND, target=target)


def test_a_batch_is_not_decided_if_its_token_was_aborted(world: World) -> None:
    with (
        at(KafkaCrashPoint.WRITTEN, lambda: abort_in(world, GROUPS)),
        pytest.raises(NotPreparedError, match=f"was ended in {GROUPS}-"),
    ):
        world.run(0, FIRST)

    world.run(0, FIRST, run="run-2")
    assert world.values() == FIRST


def test_source_offsets_that_were_aborted_alone_are_written_again(world: World) -> None:
    source, group = world.broker.create_topic(fresh_name("source")), fresh_name("group")
    offsets = progress(group, {source: {0: 0}}, {source: {0: 20}})
    with at(KafkaCrashPoint.WRITTEN, lambda: abort_in(world, GROUPS)), pytest.raises(NotPreparedError):
        world.run(0, FIRST, offsets=offsets)
    assert committed(world.broker, group, source) == {}

    world.run(0, FIRST, run="run-2", offsets=offsets)
    assert committed(world.broker, group, source) == {0: 20}


def test_a_part_that_is_aborted_in_one_partition_after_the_decision_is_named_as_lost(world_tv2: World) -> None:
    world = world_tv2
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    abort_in(world)

    with pytest.raises(ParticipantLostError, match="write them by hand") as problem:
        world.run(0, FIRST, run="run-2")

    (lost,) = problem.value.fields["missing_rows"]
    (decided,) = KAFKA_LEDGERS.read_rounds(world.store, world.prefix).values()
    (completed,) = inspection.accept_loss(world.brokers, world.store, world.prefix)
    assert [part.transactional_id for part in completed.missing] == [lost]
    assert world.open_ids() == []
    assert {one.transactional_id for one in repair._recorded(world.store).complete} == (
        {one.transactional_id for one in decided.participants} - {lost}
    )
    kept = world.values()
    assert len(kept) == len(FIRST) - completed.missing[0].rows
    world.run(1, SECOND, run="run-3")
    assert world.values() == [*kept, *SECOND]


@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_part_whose_token_was_deleted_with_its_topic_is_not_taken_for_lost(
    world_tv2: World, is_created_again: bool
) -> None:
    """It was committed: to write it again would double its rows in another topic."""
    world, other = world_tv2, world_tv2.broker.create_topic(fresh_name("other"))
    spread = rows(world.spark, FIRST).selectExpr(
        "value", f"if(cast(value as string) < 'row-000010', '{world.topic}', '{other}') as topic"
    )
    more = {**REWRITE, "topic": None}
    target = KafkaTarget(world.store, world.brokers, parse({k: v for k, v in {**world.settings, **more}.items() if v}))
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, spread, target=target)
    ((_, decided),) = KAFKA_LEDGERS.read_rounds(world.store, world.prefix).items()
    assert {answer for answer, _ in world.brokers.commit(decided.participants)} == {"NONE"}
    world.brokers.fence([one.transactional_id for one in decided.participants], 60_000)
    topic = decided.participants[0].token_topic
    world.broker.delete_topic(topic)
    until(lambda: world.brokers.partitions_of(topic) is None)
    if is_created_again:
        world.broker.create_topic(topic, partitions=2)

    with pytest.raises(ParticipantLostError, match="the token was deleted with its topic"):
        world.run(0, spread, run="run-2", target=target)


def test_a_part_that_is_aborted_in_one_partition_after_the_decision_is_rewritten_whole(world_tv2: World) -> None:
    world = world_tv2
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST, **REWRITE)
    abort_in(world)

    report = world.run(0, FIRST, run="run-2", **REWRITE)

    assert report.rewritten == 1
    assert sorted(world.values()) == sorted(FIRST)
    assert world.open_ids() == []
    assert not any(one.is_unfinished for one in KAFKA_LEDGERS.read_rounds(world.store, world.prefix).values())
