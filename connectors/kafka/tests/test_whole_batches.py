"""Reads of whole batches: all rows of a batch that a sink wrote appear at one moment, or none do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

import oncelog_kafka
from driven_batches import FIRST, REWRITE, SECOND, World, time_out_behind_the_decision
from killed_queries import BEHIND_THE_DECISION, ROWS
from killed_queries import World as Killed
from oncelog.crash_points import CrashPoint
from oncelog.errors import InvalidOptionError, UnknownTopicError, UsageError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog_kafka.connections import close_connections
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, decided_batches
from oncelog_kafka.protocol import extents
from reads import EARLIEST, Source, create_again, flat
from tests.support.connectors.kafka_sink import numbered, rows
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction

WHOLE: dict[str, Any] = {"wholeBatches": "true"}


@pytest.fixture
def source(spark: SparkSession, world: World) -> Source:
    return Source(spark, world.broker, subscribe=world.topic, **EARLIEST)


@pytest.fixture
def whole(source: Source, tmp_path: Path) -> Source:
    return Source(source.spark, source.broker, **{**source.options, **WHOLE, "znodes": str(tmp_path / "ledger")})


def run(world: World, batch_id: int, texts: Sequence[str], **more: Any) -> None:
    """A batch whose tasks write to a partition each, whatever their producers would choose."""
    world.run(batch_id, rows(world.spark, texts).withColumn("partition", spark_partition_id()), **more)


# A batch whose commits are under way ----------------------------------------------------------------------------------


@pytest.mark.every_spark
def test_a_batch_whose_commits_are_under_way_is_not_seen_and_would_be_without_the_option(
    world: World, source: Source, whole: Source, checkpoint: Path
) -> None:
    run(world, 0, FIRST)

    def look() -> None:
        until(lambda: len(FIRST) < len(source.values()) < 2 * len(FIRST))
        assert sorted(whole.values()) == FIRST
        assert flat(whole.available(checkpoint)) == whole.values()

    with at(KafkaCrashPoint.ENDED, look):
        run(world, 1, SECOND)
    until(lambda: sorted(whole.values()) == [*FIRST, *SECOND])
    assert sorted(flat(whole.available(checkpoint))) == SECOND


def test_a_batch_is_held_back_until_it_is_carried_out_even_if_nothing_is_left_to_commit(
    world: World, source: Source, whole: Source
) -> None:
    with at(KafkaCrashPoint.COMPLETE, lambda: _check_seen(whole, FIRST)):
        run(world, 0, FIRST)
    with pytest.raises(StoppedOnPurposeError), at(CrashPoint.ROUND_DECIDED, stop):
        run(world, 1, SECOND)
    assert sorted(whole.values()) == FIRST

    run(world, 1, SECOND, run="run-2")
    _check_seen(whole, [*FIRST, *SECOND])


def test_what_is_written_again_of_a_batch_is_seen_together_with_the_rest(world: World, whole: Source) -> None:
    time_out_behind_the_decision(world, **REWRITE)
    with at(KafkaCrashPoint.REPLACED, lambda: _check_seen(whole, [])):
        world.run(0, FIRST, run="run-2", **REWRITE)
    _check_seen(whole, FIRST)


def test_rows_of_others_are_seen_as_ever(world: World, whole: Source) -> None:
    Transaction(world.broker).send(world.topic, "other").commit()
    run(world, 0, FIRST)
    held = Transaction(world.broker).send(world.topic, "held")
    run(world, 1, SECOND)
    _check_seen(whole, [*FIRST, "other"])
    held.commit()
    _check_seen(whole, [*FIRST, *SECOND, "held", "other"])


def _check_seen(whole: Source, expected: Sequence[str]) -> None:
    until(lambda: sorted(whole.values()) == sorted(expected), tell=whole.values)


# Where a read begins and ends -----------------------------------------------------------------------------------------


def test_a_limit_cuts_no_batch(world: World, whole: Source, checkpoint: Path) -> None:
    batches = [numbered(20, first=20 * number) for number in range(4)]
    for number, texts in enumerate(batches):
        run(world, number, texts)
    _check_seen(whole, [text for texts in batches for text in texts])

    small = [some for some in whole.available(checkpoint, maxOffsetsPerTrigger=5) if some]  # some have markers alone
    large = [some for some in whole.available(checkpoint.with_name("other"), maxOffsetsPerTrigger=60) if some]

    for read in (small, large):
        assert len(read) > 1
        assert all(set(batch) <= set(some) or not set(batch) & set(some) for some in read for batch in batches)
        assert sorted(flat(read)) == [text for texts in batches for text in texts]


def test_what_an_end_or_a_start_cuts_of_a_batch_is_left_out_or_seen_together(world: World, whole: Source) -> None:
    run(world, 0, FIRST)
    _check_seen(whole, FIRST)
    partitions = {row.partition: row.offset for row in whole.batch().orderBy("offset").collect()}
    last = {str(number): partitions.get(number, 0) for number in (0, 1)}
    topic = world.topic

    assert whole.values(endingOffsets=_offsets(topic, last)) == []
    rest = whole.values(startingOffsets=_offsets(topic, last))
    assert rest == [text for text in whole.values() if text in rest] != []


def test_a_stream_that_starts_at_the_latest_offsets_starts_before_a_batch_that_is_not_whole(
    world: World, whole: Source, checkpoint: Path
) -> None:
    run(world, 0, FIRST)
    _check_seen(whole, FIRST)
    with at(KafkaCrashPoint.ENDED, lambda: whole.available(checkpoint, startingOffsets="latest")):
        run(world, 1, SECOND)
    _check_seen(whole, [*FIRST, *SECOND])

    assert sorted(flat(whole.available(checkpoint, startingOffsets="latest"))) == SECOND


def test_a_topic_that_was_created_again_is_not_held_back_by_offsets_of_the_former_one(
    world: World, whole: Source
) -> None:
    run(world, 0, FIRST)
    _check_seen(whole, FIRST)

    create_again(world.broker, world.topic, "new")

    _check_seen(whole, ["new"])


def _offsets(topic: str, offsets: dict[str, int]) -> str:
    return str({topic: offsets}).replace("'", '"')


# Several writers ------------------------------------------------------------------------------------------------------


def test_batches_of_several_sinks_are_whole_each(
    spark: SparkSession, world: World, source: Source, whole: Source, tmp_path: Path
) -> None:
    """One of them is a batch write, whose ledger is deleted when it is over."""
    other = {**world.settings, "transactionalIdPrefix": f"{world.prefix}.other"}

    def write_and_look() -> None:
        rows(spark, SECOND).write.format("oncelog-kafka").options(**other).save()
        until(source.values)
        assert sorted(whole.values()) in ([], SECOND)

    with at(KafkaCrashPoint.ENDED, write_and_look):
        run(world, 0, FIRST)
    _check_seen(whole, [*FIRST, *SECOND])
    assert KAFKA_LEDGERS.prefixes(world.store) == [world.prefix]
    assert [batch.is_over for batch in decided_batches(world.store)] == [True, True]
    assert len(extents.folders_of_batch_writes(world.store)) == 1


# Where the ledger is --------------------------------------------------------------------------------------------------


def test_a_ledger_that_is_not_there_is_named(world: World, source: Source, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"UsageError: there is no ledger of a sink here.*missing-ledger"):
        source.values(**WHOLE, ledgerTopic="missing-ledger")
    with pytest.raises(PySparkException, match=r"UsageError: there is no ledger of a sink here.*elsewhere"):
        source.values(**WHOLE, znodes=str(tmp_path / "elsewhere"))


def test_a_batch_of_an_older_oncelog_that_is_not_carried_out_is_an_error(world: World, whole: Source) -> None:
    with pytest.raises(StoppedOnPurposeError), at(CrashPoint.ROUND_DECIDED, stop):
        run(world, 0, FIRST)
    folder = KAFKA_LEDGERS.path(world.prefix)
    world.store.transact(lambda view: extents.delete(view, folder))

    with pytest.raises(PySparkException, match="an older oncelog decided a batch"):
        whole.values()


# Consumers without Spark ----------------------------------------------------------------------------------------------


@pytest.fixture
def closed_behind() -> Iterator[None]:
    yield
    close_connections()


@pytest.mark.usefixtures("closed_behind")
def test_a_consumer_without_spark_is_told_how_far_no_batch_is_cut(world: World, tmp_path: Path) -> None:
    settings = {"kafka.bootstrap.servers": world.broker.address, "znodes": str(tmp_path / "ledger")}
    partitions = [TopicPartition(world.topic, number) for number in (0, 1)]

    def ends() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        with KafkaConsumer(bootstrap_servers=world.broker.address, isolation_level="read_committed") as consumer:
            stable = consumer.end_offsets(partitions)
        return stable, oncelog_kafka.whole_ends(stable, {}, **settings)

    def look() -> None:
        until(lambda: sum(ends()[0].values()) > 0)
        assert ends()[1] == dict.fromkeys(partitions, 0)

    with at(KafkaCrashPoint.ENDED, look):
        run(world, 0, FIRST)
    until(lambda: (found := ends())[0] == found[1] and sum(found[1].values()) > len(FIRST))


def test_a_wrong_question_of_a_consumer_is_an_error(kafka: KafkaBroker) -> None:
    brokers = {"kafka.bootstrap.servers": kafka.address}
    with pytest.raises(UsageError, match="a partition needs a topic and a partition"):
        oncelog_kafka.whole_ends({"out": 3}, {}, **brokers)
    with pytest.raises(InvalidOptionError, match=r"unknown option.*ledgerTopics"):
        oncelog_kafka.whole_ends({}, {}, **brokers, ledgerTopics="x")
    with pytest.raises(UnknownTopicError, match="there is no such topic"):
        oncelog_kafka.whole_ends({TopicPartition("missing", 0): 3}, {}, **brokers)


# Drivers that are killed ----------------------------------------------------------------------------------------------


def is_torn(seen: list[list[str]]) -> bool:
    """Whether a stream ever showed a part of a batch of `ROWS` rows."""
    shown: Counter[int] = Counter()
    for batch in seen:
        shown.update(int(text) // ROWS for text in batch)
        if any(count != ROWS for count in shown.values()):
            return True
    return False


@pytest.fixture
def killed(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Killed]:
    found = Killed(kafka, tmp_path, "format", znodes=None)
    yield found
    found.end()


@pytest.mark.walk("a killed driver leaves one copy in Kafka")
def test_a_driver_that_is_killed_among_its_commits_shows_no_part_of_a_batch(
    spark: SparkSession, killed: Killed, tmp_path: Path
) -> None:
    """Whether a stream without the option would see parts depends on how many of the commits were on their way."""
    source = Source(spark, killed.broker, subscribe=killed.topic, **EARLIEST)
    killed.write()
    killed.live(None)
    killed.recover()
    killed.end()
    with source.running(tmp_path / "whole", **WHOLE) as (_, whole):
        for point in BEHIND_THE_DECISION:
            killed.die(point)
        killed.live(None)
        killed.recover()
        until(lambda: sorted(flat(whole)) == killed.written)

    assert not is_torn(whole)
