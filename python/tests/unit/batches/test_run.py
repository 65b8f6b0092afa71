"""The sink's driver, without Spark: what it leaves of a batch that fails, and what it says while the tasks work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches.attempt import Batch
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.run import BatchDriver
from oncelog.errors import BatchRefusedError, OncelogError, RoundAbortedError, UnknownPartitionError
from oncelog.log import generations
from oncelog.log.partition_log import PARTITIONS_PER_STEP
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.options import Use
from oncelog.spark.kit.requests import batch_request
from oncelog.spark.log_target import SETTLED_EVERY, LogTarget, commit_once, write_task
from oncelog.spark.options import SinkOptions, parse_sink_options
from oncelog.spark.writing import WriteTask, Written
from oncelog.types import OffsetAndMetadata
from tests.support.harness.waiting import until
from tests.support.log.logs import TOPIC, LogWorld, log_world, lso, state, values
from tests.support.log.rounds import PREFIX, SOURCE, joining_world, request, written
from tests.support.log.rounds import offsets as batch_offsets

BATCH = BatchContext("query", "run", "/ck", 3, ("1",), ("2",), has_state=False)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with log_world(tmp_path) as found:
        found.log.create_topic(TOPIC, partitions=2)
        found.log.create_topic(SOURCE)
        yield found


def options(world: LogWorld, **more: object) -> SinkOptions:
    given = {"path": world.log.path, "topic": TOPIC, "transactionalIdPrefix": PREFIX, **more}
    return parse_sink_options(given, Use.FOREACH_BATCH)


def driver_of(world: LogWorld, **more: object) -> BatchDriver:
    return BatchDriver(LogTarget(world.log, options(world, **more)))


def some_blocks(world: LogWorld, topic: str, numbers: Iterable[int]) -> list[Written]:
    """What the tasks of a batch hand over: a row for each of these partitions."""
    found = written(world.log, {number: [b"row"] for number in numbers}, topic)
    return [Written(topic, place.partition, block) for place, blocks in found.items() for block in blocks]


def test_a_topic_that_is_created_again_smaller_while_the_tasks_work_is_an_error_that_says_so(world: LogWorld) -> None:
    driver = driver_of(world)

    def work(task: WriteTask) -> Iterable[Written]:
        found = some_blocks(world, TOPIC, [0, 1])
        world.log.admin.delete_topic(TOPIC)
        world.log.create_topic(TOPIC, partitions=1)
        return found

    with pytest.raises(UnknownPartitionError, match=r"created again with fewer.*partition=1, partitions=1"):
        driver.run(Batch(request(0), work))

    assert values(world.log) == []


@pytest.mark.parametrize(
    "is_empty", [lambda at: False, lambda at: at % 2, lambda at: not at % 2], ids=["none", "odd", "even"]
)
def test_where_steps_are_dear_owners_do_not_pile_up_whichever_batches_are_empty(
    tmp_path: Path, is_empty: Callable[[int], bool]
) -> None:
    """An empty batch is no one step. If every second one was empty, its turn to settle always came amiss."""
    with joining_world(tmp_path) as world:
        world.log.create_topic(TOPIC, partitions=1)
        driver = driver_of(world)

        def work(task: WriteTask) -> Iterable[Written]:
            return some_blocks(world, TOPIC, [] if is_empty(batch_id) else [0])

        for batch_id in range(6 * SETTLED_EVERY):
            driver.run(Batch(request(batch_id), work))
            world.time.pass_ms(limits.SETTLE_LAG_MS)

        assert len(state(world.log).owners) <= 2 * SETTLED_EVERY


def test_a_round_is_renewed_while_its_tasks_work(world: LogWorld) -> None:
    store, path = world.store(), EMBEDDED.round_path(PREFIX, 1)

    def version() -> int:
        found = store.get(path)
        assert found is not None
        return found.stat.version

    def work(task: WriteTask) -> Iterable[Written]:
        begun = version()
        until(lambda: version() > begun + 1)
        return some_blocks(world, TOPIC, [0])

    driver_of(world, roundTimeoutMs=30).run(Batch(request(0), work))

    assert values(world.log, 0) == [b"row"]


@pytest.mark.parametrize("is_repeatable", [True, False])
def test_a_batch_that_others_aborted_before_its_decision_is_run_once_more_where_it_may_be(
    world: LogWorld, *, is_repeatable: bool
) -> None:
    driver = driver_of(world)
    runs = 0

    def work(task: WriteTask) -> Iterable[Written]:
        nonlocal runs
        runs += 1
        found = some_blocks(world, TOPIC, [0])
        if runs == 1:
            assert world.log.admin.abort_round(PREFIX) == 1
        return found

    if is_repeatable:
        assert driver.run(Batch(request(0), work, is_repeatable=True)).rows == 1
    else:
        with pytest.raises(RoundAbortedError):
            driver.run(Batch(request(0), work))

    assert values(world.log) == [b"row"] * is_repeatable
    assert runs == 1 + is_repeatable


def test_a_batch_that_others_abort_each_time_ends_its_query(world: LogWorld) -> None:
    def work(task: WriteTask) -> Iterable[Written]:
        found = some_blocks(world, TOPIC, [0])
        world.log.admin.abort_round(PREFIX)
        return found

    with pytest.raises(RoundAbortedError):
        driver_of(world).run(Batch(request(0), work, is_repeatable=True))

    assert values(world.log) == []


def test_a_job_that_lasts_longer_than_two_collections_is_committed(world: LogWorld) -> None:
    def work(task: WriteTask) -> Iterable[Written]:
        found = some_blocks(world, TOPIC, [0])
        for _ in range(4):
            world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
            assert world.log.admin.upkeep().timed_out == ()
        return found

    driver_of(world, roundTimeoutMs=24 * 3600 * 1000).run(Batch(request(0), work))

    assert values(world.log, 0) == [b"row"]


def test_a_batch_that_fails_leaves_no_round_open(world: LogWorld) -> None:
    driver = driver_of(world)

    def fail(task: WriteTask) -> Iterable[Written]:
        raise RuntimeError("a job fails on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        driver.run(Batch(request(0), fail))
    assert world.log.admin.describe_ledger(PREFIX).open_rounds == []

    elsewhere = batch_offsets(world.log, 7)
    with world.log.consumer(group_id=elsewhere.group_id) as consumer:
        consumer.commit({p.topic_partition: OffsetAndMetadata(3) for p in elsewhere.start})
    with pytest.raises(BatchRefusedError):
        driver.run(
            Batch(request(0, group_id=elsewhere.group_id), lambda task: some_blocks(world, TOPIC, [0]), elsewhere)
        )
    assert world.log.admin.describe_ledger(PREFIX).open_rounds == []
    assert values(world.log) == []


def test_a_batch_write_that_fails_half_way_leaves_no_transaction_open(world: LogWorld) -> None:
    """It would hold back every reader of the topic until its time-out, which is the longest there is."""
    count = PARTITIONS_PER_STEP + 1
    world.log.create_topic("wide", partitions=count)
    collected = some_blocks(world, "wide", [count - 1])
    while generations.current(world.store()) < 3:
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS + 1)
        world.log.admin.upkeep()
    fresh = some_blocks(world, "wide", range(count - 1))

    with pytest.raises(OncelogError, match="older than the previous collection generation"):
        commit_once(world.log, [*fresh, *collected])

    assert lso(world.log, 0, "wide") == state(world.log, 0, "wide").log_end > 0
    assert values(world.log, topic="wide") == []


def test_tasks_name_their_files_by_the_generation_of_now_and_know_the_topics_there_are(world: LogWorld) -> None:
    every = write_task(world.log, options(world, topic=None))
    one = write_task(world.log, options(world))

    assert every.partitions == {TOPIC: 2, SOURCE: 1}
    assert (one.partitions, one.topic) == ({TOPIC: 2}, TOPIC)
    assert {every.generation, one.generation} == {generations.current(world.store())}


def test_each_sink_of_a_query_has_a_history_of_its_own_if_it_is_named(world: LogWorld) -> None:
    asked = [batch_request(options(world, sinkName=name), BATCH, "run") for name in ("a", "b", None)]

    assert [one.prefix for one in asked] == [f"{PREFIX}.a", f"{PREFIX}.b", PREFIX]
    assert [one.sink_name for one in asked] == ["a", "b", TOPIC]
    assert len({one.fingerprint for one in asked}) == 1
    other = batch_request(options(world), replace(BATCH, start_offsets=("0",)), "run")
    assert other.fingerprint != asked[0].fingerprint
