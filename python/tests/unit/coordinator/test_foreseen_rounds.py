"""Rounds where steps are dear, from a run's second batch on: the step that decides opens them, and settles others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.batches import rules as batch_rules
from oncelog.batches.attempt import Batch
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.run import BatchDriver
from oncelog.coordinator import settler
from oncelog.crash_points import CrashPoint, arm
from oncelog.errors import (
    BatchRefusedError,
    InvariantViolation,
    OncelogError,
    OutcomeUnknownError,
    RoundAbortedError,
    RunSupersededError,
    StepTooLargeError,
)
from oncelog.log import partition_log
from oncelog.log.partition_reads import read_partition
from oncelog.runtime import Log
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import SETTLED_EVERY, LogTarget
from oncelog.spark.options import SinkOptions, parse_sink_options
from oncelog.spark.writing import WriteTask, Written
from oncelog.types import Outcome
from oncelog.znodes import rules
from oncelog.znodes.memory import MemoryZnodeStore
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, partition, partitions, uncommitted, values
from tests.support.log.rounds import (
    GROUP,
    PREFIX,
    SOURCE,
    begin,
    committed,
    joining_world,
    offsets,
    plan_round,
    request,
    written,
)

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with joining_world(tmp_path) as found:
        found.log.create_topic(TOPIC, partitions=2)
        found.log.create_topic(SOURCE)
        round_ = begin(found.log, 0)
        round_.write(written(found.log, {0: [b"first"]}))
        round_.decide()
        yield found


def newest(log: Log) -> tuple[int, Outcome]:
    """The number of the newest round, and its outcome."""
    ledger = EMBEDDED.require(log.services.store, PREFIX)
    record = EMBEDDED.read_round(log.services.store, PREFIX, ledger.current_round)
    assert record is not None
    return ledger.current_round, record.outcome


# The round ------------------------------------------------------------------------------------------------------------


def test_the_second_batch_of_a_run_writes_nothing_before_its_decision(world: LogWorld) -> None:
    round_ = begin(world.log, 1)
    round_.write(written(world.log, {0: [b"a"]}))
    assert newest(world.log) == (1, Outcome.COMMIT)
    round_.decide()

    assert newest(world.log) == (2, Outcome.COMMIT)
    assert values(world.log) == [b"first", b"a"]
    assert plan_round(world.log.services.new_round_services(), request(1, "run-2")) is None


def test_an_empty_batch_stages_its_offsets(world: LogWorld) -> None:
    begin(world.log, 1, group_id=GROUP).decide()
    round_ = begin(world.log, 2, group_id=GROUP)
    round_.stage_offsets(offsets(world.log, 0))
    round_.decide()

    assert committed(world.log) == 10


def test_a_batch_that_lasts_opens_its_round_and_renews_it(world: LogWorld) -> None:
    round_ = begin(world.log, 1)
    round_.renew()
    assert newest(world.log) == (2, Outcome.OPEN)
    world.time.pass_ms(900)
    round_.renew()
    world.time.pass_ms(900)
    world.log.admin.time_out()
    assert newest(world.log) == (2, Outcome.OPEN)
    round_.write(written(world.log, {0: [b"a"]}))
    round_.decide()

    assert values(world.log) == [b"first", b"a"]


def test_a_driver_looks_after_its_round_before_the_batch_has_lasted(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_ms: list[int] = []

    def every_ms(_: object, pause_ms: int, action: Callable[[], bool], *, name: str) -> AbstractContextManager[None]:
        pauses_ms.append(pause_ms)
        assert action()
        return nullcontext()

    def job(_: WriteTask) -> list[Written]:
        seen.append(newest(world.log))
        return []

    seen: list[tuple[int, Outcome]] = []
    monkeypatch.setattr(type(world.time.background), "every_ms", every_ms)
    BatchDriver(LogTarget(world.log, sink_options())).run(Batch(request(1), job))

    assert set(pauses_ms) == {limits.ROUND_OPENED_AFTER_MS}
    assert seen == [(2, Outcome.OPEN)]
    assert newest(world.log) == (2, Outcome.COMMIT)


def test_a_batch_that_is_superseded_before_it_is_opened_opens_and_decides_nothing(world: LogWorld) -> None:
    old = begin(world.log, 1)
    old.write(written(world.log, {0: [b"old"]}))
    new = begin(world.log, 1, "run-2")
    for step in (old.decide, old.renew):
        with pytest.raises(RunSupersededError):
            step()
    old.abort()
    assert newest(world.log) == (2, Outcome.OPEN), "the number was another's"
    new.write(written(world.log, {0: [b"new"]}))
    new.decide()

    assert values(world.log) == [b"first", b"new"]


def test_a_decision_of_unknown_outcome_is_asked_for_again(world: LogWorld) -> None:
    store = FaultyStore(world.store())
    log = world.open(store)
    round_ = begin(log, 1)
    round_.write(written(log, {0: [b"a"]}))
    store.fail_next(*[Fault.LOST_REQUEST] * 4, Fault.LOST_REPLY)
    with pytest.raises(OutcomeUnknownError):
        round_.decide()
    begin(world.log, 2).renew()
    round_.decide()

    assert values(world.log) == [b"first", b"a"]


def test_a_run_that_the_ledger_has_forgotten_decides_nothing(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_rules, "REMEMBERED_RUNS", 1)
    old = begin(world.log, 1)
    old.write(written(world.log, {0: [b"old"]}))
    for run_id in ("run-2", "run-3"):
        assert plan_round(world.log.services.new_round_services(), request(0, run_id)) is None
    with pytest.raises(RoundAbortedError):
        old.decide()

    assert uncommitted(world.log) == [b"first"]
    begin(world.log, 1, "run-3").decide()


def test_of_two_sinks_with_one_prefix_the_second_decides_nothing(world: LogWorld) -> None:
    one, other = begin(world.log, 1), begin(world.log, 1)
    one.write(written(world.log, {0: [b"one"]}))
    other.write(written(world.log, {0: [b"other"]}))
    other.renew()
    with pytest.raises(RoundAbortedError):
        one.decide()
    one.abort()
    other.decide()
    with pytest.raises(RoundAbortedError):
        one.decide()

    assert values(world.log) == [b"first", b"other"]
    with pytest.raises(BatchRefusedError, match="two sinks share a prefix"):
        begin(world.log, 1)


def test_a_batch_that_another_one_came_before_is_not_decided(world: LogWorld) -> None:
    late = begin(world.log, 2)
    late.write(written(world.log, {0: [b"late"]}))
    begin(world.log, 1).decide()
    with pytest.raises(RoundAbortedError):
        late.decide()

    assert values(world.log) == [b"first"]


def test_a_batch_that_is_begun_together_with_others_is_planned(world: LogWorld) -> None:
    plan_round(world.log.services.new_round_services(), request(1), is_alone=False)

    assert newest(world.log) == (2, Outcome.OPEN)


def test_behind_a_round_that_is_open_a_batch_is_planned(world: LogWorld) -> None:
    begin(world.log, 1).renew()
    begin(world.log, 1)

    assert newest(world.log) == (3, Outcome.OPEN)
    found = EMBEDDED.read_round(world.log.services.store, PREFIX, 2)
    assert found is not None
    assert found.outcome is Outcome.ABORT


def test_what_takes_several_steps_opens_its_round(world: LogWorld) -> None:
    round_ = begin(world.log, 1)
    round_.write(written(world.log, {0: [b"a"]}))
    round_.write(written(world.log, {1: [b"b"]}))
    assert newest(world.log) == (2, Outcome.OPEN)
    round_.decide()

    assert values(world.log) == [b"first", b"a", b"b"]


def test_a_round_that_timed_out_after_it_was_opened_is_not_opened_again(world: LogWorld) -> None:
    round_ = begin(world.log, 1)
    round_.write(written(world.log, {0: [b"a"]}))
    twin = begin(world.log, 1)
    twin.renew()
    twin.abort()
    with pytest.raises(RoundAbortedError):
        round_.decide()

    assert newest(world.log) == (2, Outcome.ABORT)
    again = begin(world.log, 1)
    assert again.number == 3, "planned, since a round was opened"


def test_a_round_that_was_opened_late_keeps_the_generation_that_its_files_bear(world: LogWorld) -> None:
    round_ = begin(world.log, 1, timeout_ms=DAY_MS)
    blocks = written(world.log, {0: [b"slow"]})
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    assert world.log.admin.collect().generation == 2
    world.time.pass_ms(limits.ROUND_OPENED_AFTER_MS)
    round_.renew()
    for _ in range(3):
        world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        assert len(world.log.admin.collect().held_by) == 1
    round_.write(blocks)
    round_.decide()

    assert values(world.log) == [b"first", b"slow"]
    assert world.log.admin.collect().generation == 3


# Topics ---------------------------------------------------------------------------------------------------------------


def test_a_topic_that_was_created_since_the_last_decision_is_found(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.store()
    assert isinstance(store, MemoryZnodeStore)
    before = store.fork()
    monkeypatch.setattr(store, "recent", lambda: nullcontext(before))
    world.log.create_topic("late")
    (block,) = written(world.log, {0: [b"a"]}, "late").popitem()[1]

    def job(task: WriteTask) -> list[Written]:
        assert "late" in task.partitions
        return [Written("late", 0, block)]

    BatchDriver(LogTarget(world.log, sink_options(topic=None))).run(Batch(request(1), job))
    (late,) = partitions(world.log, "late")
    assert read_partition(world.log.services.store, late).log_end == 1


# Settling -------------------------------------------------------------------------------------------------------------


def sink_options(topic: str | None = TOPIC) -> SinkOptions:
    named = {} if topic is None else {"topic": topic}
    return parse_sink_options({"path": "/", "transactionalIdPrefix": PREFIX, **named}, Use.FOREACH_BATCH)


def run_batches(world: LogWorld, count: int) -> list[int]:
    """Run batches with one row each; returns how many owners the partition lists after each."""
    driver, lists = BatchDriver(LogTarget(world.log, sink_options())), []
    for batch_id in range(1, 1 + count):
        (found,) = written(world.log, {0: [b"%d" % batch_id]}).items()
        job = [Written(TOPIC, found[0].partition, block) for block in found[1]]
        driver.run(Batch(request(batch_id), lambda _, job=job: job))
        world.time.sleep_ms(limits.SETTLE_LAG_MS)
        lists.append(len(read_partition(world.log.services.store, partition(world.log, 0)).owners))
    assert len(values(world.log)) == 1 + count
    return lists


def test_every_fourth_step_that_decides_settles_what_was_decided_before_the_fourth_one_before_it(
    world: LogWorld,
) -> None:
    lists = run_batches(world, 2 * SETTLED_EVERY + 1)

    assert lists == [2, 3, 4, 5, 5, 6, 7, 8, 5]


@pytest.mark.parametrize("problem", [OncelogError("full"), InvariantViolation("impossible"), StepTooLargeError("full")])
def test_a_settling_that_fails_is_no_failure_of_the_batch(
    world: LogWorld, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append_markers(*_: object) -> None:
        raise problem

    monkeypatch.setattr(partition_log, "append_markers", append_markers)

    assert run_batches(world, 2 * SETTLED_EVERY + 1) == list(range(2, 2 * SETTLED_EVERY + 3))


def test_a_step_that_is_too_large_with_the_settling_decides_without_it(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MULTI_MAX_OPS", 12)
    reached: list[str] = []
    arm(reached.append)
    try:
        assert run_batches(world, 2 * SETTLED_EVERY + 1) == list(range(2, 2 * SETTLED_EVERY + 3))
    finally:
        arm(None)
    assert CrashPoint.SETTLE in reached
    assert CrashPoint.ROUND_APPENDED not in reached, "it was not taken apart"


def test_what_takes_several_steps_is_settled_in_them(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settler, "OPERATIONS_PER_STEP", 4)

    assert run_batches(world, 2 * SETTLED_EVERY + 1) == [2, 3, 4, 5, 5, 6, 7, 8, 5]
    assert EMBEDDED.round_numbers(world.log.services.store, PREFIX) == [6, 7, 8, 9, 10]
