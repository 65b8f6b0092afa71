"""Driving batches, step by step: other drivers, brokers that are away, and time-outs, at each point of a batch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from driven_batches import FIRST, REWRITE, SECOND, SHORT_MS, World, progress, time_out_behind_the_decision
from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.crash_points import CrashPoint
from oncelog.errors import BatchRefusedError, NotPreparedError, RunSupersededError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.types import TopicPartition
from oncelog_kafka import patience
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import BrokerUnavailableError, ParticipantLostError, RewriteMismatchError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.protocol import participants
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_sink import committed, numbered, rows, values
from tests.support.harness.variants import variants
from tests.support.servers.kafka import DEFAULT_VERSION, fresh_name, running_broker

pytestmark = pytest.mark.sampled

# Two drivers ----------------------------------------------------------------------------------------------------------


@pytest.mark.walk
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.SINK_PLANNED,
        KafkaCrashPoint.FENCE,
        KafkaCrashPoint.WRITTEN,
        KafkaCrashPoint.CHECKED,
        CrashPoint.ROUND_DECIDE,
    ],
)
def test_a_driver_that_another_overtakes_before_its_decision_ends_at_its_next_step(world: World, point: str) -> None:
    """conformance: 54, 62."""
    with at(point, lambda: world.run(0, FIRST, run="run-2")), pytest.raises(RunSupersededError):
        world.run(0, FIRST, run="run-1")

    assert world.values() == FIRST
    assert world.open_ids() == []
    world.run(1, SECOND, run="run-2")
    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.parametrize(
    "point", [CrashPoint.ROUND_DECIDED, KafkaCrashPoint.END, KafkaCrashPoint.ENDED, KafkaCrashPoint.COMPLETE]
)
def test_two_drivers_that_carry_out_one_decision_leave_one_copy(world: World, point: str) -> None:
    reports = []

    def overtake() -> None:
        target = world.target()
        reports.append(world.run(0, FIRST, run="run-2", target=target))
        reports.append(world.run(1, SECOND, run="run-2", target=target))

    with at(point, overtake), pytest.raises(RunSupersededError):
        world.run(0, FIRST, run="run-1")
        world.run(1, SECOND, run="run-1")

    assert [report.is_replay for report in reports] == [True, False]
    assert world.values() == [*FIRST, *SECOND]


def test_a_driver_that_was_overtaken_leaves_its_successors_transactions_alone(world: World) -> None:
    older, newer = world.target(), world.target()
    world.run(0, FIRST, run="run-1", target=older)

    def overtake() -> None:
        with at(KafkaCrashPoint.CHECKED, lambda: _ends_superseded(world, older)):
            world.run(1, SECOND, run="run-2", target=newer)

    overtake()

    assert world.values() == [*FIRST, *SECOND]


def _ends_superseded(world: World, older: KafkaTarget) -> None:
    with pytest.raises(RunSupersededError):
        world.run(1, SECOND, run="run-1", target=older)


# What a stopped driver left -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [CrashPoint.SINK_PLANNED, KafkaCrashPoint.WRITTEN, CrashPoint.ROUND_DECIDE])
def test_what_a_driver_prepared_and_did_not_decide_is_aborted(world: World, point: str) -> None:
    """conformance: 53."""
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    assert world.values() == []

    world.run(0, FIRST, run="run-2")
    assert world.values() == FIRST


@pytest.mark.parametrize("point", [CrashPoint.ROUND_DECIDED, KafkaCrashPoint.ENDED, KafkaCrashPoint.COMPLETE])
def test_what_a_driver_decided_is_committed_by_the_next_even_for_a_later_batch(world: World, point: str) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)

    world.run(1, SECOND, run="run-2")
    assert world.values() == [*FIRST, *SECOND]


def test_a_query_that_takes_over_finishes_what_the_other_decided(world: World) -> None:
    """conformance: 59."""
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    heir = BatchRequest(world.prefix, "heir", "sink", "run-9", 0, "fp-heir", takeover="query")

    BatchDriver(world.target()).run(Batch(heir, SparkJob(rows(world.spark, SECOND))))

    assert world.values() == [*FIRST, *SECOND]


# Another ledger -------------------------------------------------------------------------------------------------------


def test_a_query_whose_history_is_in_another_ledger_is_refused_and_writes_nothing(world: World, tmp_path: Path) -> None:
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, FIRST)

    with closing(metadata.open_metadata(str(tmp_path / "other"))) as other:
        target = KafkaTarget(other, world.brokers, world.target().options)
        with pytest.raises(BatchRefusedError, match="the history of this query is in another ledger"):
            world.run(1, FIRST, run="run-2", target=target)
        assert KAFKA_LEDGERS.prefixes(other) == []
    assert world.run(1, FIRST, run="run-3").is_replay
    assert world.values() == FIRST


@pytest.mark.parametrize("client", variants("kafka-python", "java"))
def test_a_first_batch_whose_rows_name_their_topics_is_not_written_again_with_another_ledger(
    world: World, tmp_path: Path, client: str
) -> None:
    """Its tokens are in whatever topic a task wrote to first."""
    del world.settings["topic"]
    other = world.broker.create_topic(fresh_name("other"))
    sent = [(topic, bytearray(value.encode())) for topic, value in ((world.topic, "a"), (other, "b"))]
    df = world.spark.createDataFrame(sent, "topic string, value binary").repartition(2)
    world.run(0, df)

    settings = JavaClient({"bootstrap.servers": world.broker.address}) if client == "java" else None
    with (
        closing(metadata.open_metadata(str(tmp_path / "other"))) as store,
        closing(Brokers(settings or {"bootstrap_servers": world.broker.address})) as brokers,
    ):
        target = KafkaTarget(store, brokers, world.target().options)
        with pytest.raises(BatchRefusedError, match="the history of this query is in another ledger"):
            world.run(0, df, run="run-2", target=target)
    assert world.run(0, df, run="run-3").is_replay
    assert [*world.values(), *values(world.broker, other)] == ["a", "b"]


def test_a_query_of_another_sink_begins_its_history_at_any_batch(world: World) -> None:
    assert world.run(7, FIRST).rows == len(FIRST)
    assert world.values() == FIRST


# Brokers that are away ------------------------------------------------------------------------------------------------


@pytest.fixture
def lonely(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world with a broker of its own, whose absence nobody waits out for long."""
    monkeypatch.setattr(patience, "PATIENCE_MS", 3_000)
    with running_broker(tmp_path / "broker", version=DEFAULT_VERSION) as broker:
        found = World(
            spark,
            broker,
            tmp_path,
            **{"kafka.max.block.ms": 5_000, "kafka.delivery.timeout.ms": 6_000, "kafka.request.timeout.ms": 3_000},
        )
        found.run(0, FIRST)
        yield found
        found.close()


@pytest.mark.walk
@pytest.mark.parametrize(
    "point", [CrashPoint.SINK_PLANNED, KafkaCrashPoint.WRITTEN, CrashPoint.ROUND_DECIDED, KafkaCrashPoint.ENDED]
)
def test_a_broker_that_is_away_fails_the_batch_and_a_restart_writes_it_once(
    lonely: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(point, lonely.broker.stop), pytest.raises(BrokerUnavailableError):
        lonely.run(1, SECOND)
    lonely.broker.start()
    lonely.broker.wait_until_serving()
    monkeypatch.undo()

    lonely.run(1, SECOND, run="run-2")

    assert lonely.values() == [*FIRST, *SECOND]


@pytest.mark.sampled("rewriting of what is lost")
def test_a_broker_that_restarts_while_commits_are_sent_costs_nothing_but_time(
    lonely: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_MS", 60_000)
    with at(KafkaCrashPoint.ENDED, lonely.broker.restart):
        lonely.run(1, SECOND)

    assert lonely.values() == [*FIRST, *SECOND]


# Pauses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [KafkaCrashPoint.CHECKED, CrashPoint.ROUND_DECIDE])
def test_a_driver_that_pauses_behind_its_look_does_not_decide_by_it(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(participants, "LOOK_MS", 300)

    def pause_while_an_operator_aborts() -> None:
        world.brokers.fence(world.open_ids(), SHORT_MS)
        time.sleep(0.4)

    with at(point, pause_while_an_operator_aborts), pytest.raises(NotPreparedError, match="not decided"):
        world.run(0, FIRST)

    assert world.values() == []
    with at(point, lambda: time.sleep(0.4)) as passed:
        world.run(0, FIRST, run="run-2")
    assert passed.count(KafkaCrashPoint.CHECKED) >= 2
    assert world.values() == FIRST


def test_a_driver_whose_every_look_is_too_old_gives_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "LOOK_MS", -1)

    with pytest.raises(NotPreparedError) as error:
        world.run(0, FIRST)

    assert "too much time passed before the decision" in str(error.value.fields["problems"])
    assert world.open_ids() == []


@pytest.mark.sampled("rewriting of what is lost")
def test_what_is_rewritten_is_decided_by_a_fresh_look_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    time_out_behind_the_decision(world, **REWRITE)
    monkeypatch.setattr(participants, "LOOK_MS", 300)

    with at(KafkaCrashPoint.CHECKED, lambda: time.sleep(0.4)) as passed:
        world.run(0, FIRST, run="run-2", **REWRITE)

    assert passed.count(KafkaCrashPoint.CHECKED) >= 2
    assert world.values() == FIRST


# Time-outs ------------------------------------------------------------------------------------------------------------


def test_participants_that_time_out_before_the_decision_are_not_decided(world: World) -> None:
    """conformance: 55."""
    with at(KafkaCrashPoint.WRITTEN, world.wait_for_time_out), pytest.raises(NotPreparedError) as error:
        world.run(0, FIRST, transactionTimeoutMs=SHORT_MS)

    assert all("CompleteAbort" in why or "another producer" in why for why in error.value.fields["problems"].values())
    assert world.values() == []
    world.run(0, FIRST, run="run-2")
    assert world.values() == FIRST


def test_participants_that_time_out_behind_the_decision_are_named_and_nothing_goes_on(world: World) -> None:
    """conformance: 56."""
    time_out_behind_the_decision(world)

    for batch_id in (0, 1):
        with pytest.raises(ParticipantLostError) as error:
            world.run(batch_id, FIRST, run=f"run-2.{batch_id}")
        assert sum(error.value.fields["missing_rows"].values()) == len(FIRST)
        assert error.value.fields["topics"] == [world.topic]
    assert world.values() == []


@pytest.mark.sampled("rewriting of what is lost")
def test_under_rewrite_a_batch_that_timed_out_is_written_again_once(world: World) -> None:
    """conformance: 56."""
    time_out_behind_the_decision(world, **REWRITE)

    report = world.run(0, rows(world.spark, FIRST, partitions=5), run="run-2", **REWRITE)

    assert (report.is_replay, report.rewritten) == (True, 3)
    assert world.values() == FIRST
    assert world.run(0, FIRST, run="run-3", **REWRITE).rewritten == 0
    world.run(1, SECOND, run="run-3", **REWRITE)
    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.sampled("rewriting of what is lost")
def test_a_late_replay_leaves_what_a_later_batch_lost_to_that_ones_replay(world: World) -> None:
    """A driver that stood still since it read the ledger, while others wrote the next batch."""
    world.run(0, FIRST, **REWRITE)
    job = SparkJob(rows(world.spark, FIRST))
    late = BatchDriver(world.target(**REWRITE)).attempt(Batch(world.request(0, "run-2"), job))
    assert not late.plan()
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND, run="run-3", transactionTimeoutMs=SHORT_MS, **REWRITE)
    world.wait_for_time_out()

    late.complete_replay()

    assert late.report.rewritten == 0
    assert world.run(1, SECOND, run="run-4", **REWRITE).rewritten > 0
    assert world.values() == [*FIRST, *SECOND]


def test_under_rewrite_only_what_is_missing_is_written_again(world: World) -> None:
    with at(KafkaCrashPoint.ENDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST, transactionTimeoutMs=SHORT_MS, **REWRITE)
    world.wait_for_time_out()

    # Behind the first commit the driver stops; or all were sent, and nothing is missing.
    report = world.run(0, FIRST, run="run-2", **REWRITE)

    assert report.rewritten in {2, 0}
    assert world.values() == FIRST


@pytest.mark.walk
@pytest.mark.parametrize("point", [KafkaCrashPoint.LOST, KafkaCrashPoint.REWRITTEN, KafkaCrashPoint.REPLACED])
def test_a_rewrite_that_is_stopped_at_a_point_is_done_by_the_next(world: World, point: str) -> None:
    time_out_behind_the_decision(world, **REWRITE)
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST, run="run-2", **REWRITE)

    world.run(0, FIRST, run="run-3", **REWRITE)

    assert world.values() == FIRST


@pytest.mark.sampled("rewriting of what is lost")
def test_of_two_drivers_that_rewrite_one_ends_and_there_is_one_copy(world: World) -> None:
    time_out_behind_the_decision(world, **REWRITE)

    with (
        at(KafkaCrashPoint.REWRITTEN, lambda: world.run(0, FIRST, run="run-3", **REWRITE)),
        pytest.raises(RunSupersededError),
    ):
        world.run(0, FIRST, run="run-2", **REWRITE)

    assert world.values() == FIRST


@pytest.mark.sampled("rewriting of what is lost")
def test_a_plan_that_gives_other_rows_the_next_time_is_found_out(world: World) -> None:
    def anything(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"value": [uuid.uuid4().bytes for _ in range(batch.num_rows)]})

    plan = rows(world.spark, FIRST).mapInArrow(anything, "value binary")
    time_out_behind_the_decision(world, plan, **REWRITE)

    with pytest.raises(RewriteMismatchError) as error:
        world.run(0, plan, run="run-2", **REWRITE)

    assert error.value.fields["decided"] != error.value.fields["replayed"]
    assert world.values() == []


@pytest.mark.sampled("rewriting of what is lost")
def test_a_batch_that_was_decided_without_buckets_cannot_be_rewritten(world: World) -> None:
    time_out_behind_the_decision(world)

    with pytest.raises(ParticipantLostError, match="from the start"):
        world.run(0, FIRST, run="run-2", **REWRITE)


# Groups ---------------------------------------------------------------------------------------------------------------


def test_source_offsets_become_the_groups_with_the_batch(world: World) -> None:
    source = world.broker.create_topic(fresh_name("source"), partitions=2)
    group = fresh_name("group")

    def offsets(start: int, end: int) -> GroupProgress[TopicPartition]:
        return progress(group, {source: {0: start, 1: start}}, {source: {0: end, 1: end}})

    world.run(0, FIRST, offsets=offsets(0, 10))
    assert committed(world.broker, group, source) == {0: 10, 1: 10}
    world.run(1, rows(world.spark, []), run="run-2", offsets=offsets(10, 12))
    assert committed(world.broker, group, source) == {0: 12, 1: 12}
    with pytest.raises(BatchRefusedError) as error:
        world.run(2, SECOND, run="run-3", offsets=offsets(10, 20))

    assert error.value.fields["held_and_start"] == {f"{source}-0": (12, 10), f"{source}-1": (12, 10)}
    assert world.values() == FIRST


def test_a_plan_without_a_task_commits_its_offsets_too(world: World) -> None:
    source = world.broker.create_topic(fresh_name("source"))
    group = fresh_name("group")
    nothing = world.spark.createDataFrame(world.spark.sparkContext.emptyRDD(), "value binary")
    assert nothing.rdd.getNumPartitions() == 0

    world.run(0, nothing, offsets=progress(group, {}, {source: {0: 3}}))

    assert committed(world.broker, group, source) == {0: 3}


# Wide batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_of_many_participants_is_decided_in_one_write(world: World) -> None:
    report = world.run(0, rows(world.spark, numbered(100), partitions=40))

    assert report.participants == 40
    assert world.values() == numbered(100)
    (decided,) = KAFKA_LEDGERS.read_rounds(world.store, world.prefix).values()
    assert len(decided.participants) == 40
    # All requests go out in one turn: what is refused for want of room waits for turns that grow long.
    answers = {answer for answer, _ in world.brokers.commit(decided.participants)}
    assert answers <= {"NONE", "CONCURRENT_TRANSACTIONS"}
