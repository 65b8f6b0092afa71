"""Rounds where steps are dear: one appends, stages and decides. It is as if they were several, and somebody died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.batches.attempt import Batch
from oncelog.batches.run import BatchDriver
from oncelog.errors import OncelogError, OutcomeUnknownError, RoundAbortedError, RunSupersededError
from oncelog.limits import SETTLE_LAG_MS
from oncelog.log.partition_reads import read_partition
from oncelog.runtime import Log
from oncelog.spark import log_target
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import LogTarget
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import Written
from oncelog.znodes import rules
from tests.support.log.faulty import Crashed, Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, partition, uncommitted, values
from tests.support.log.rounds import (
    GROUP,
    SOURCE,
    begin,
    committed,
    joining_world,
    offsets,
    request,
    restarted_at_every_multi,
    written,
)

BATCHES = 3


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with joining_world(tmp_path) as found:
        found.log.create_topic(TOPIC, partitions=2)
        found.log.create_topic(SOURCE)
        yield found


def listed(log: Log) -> int:
    """Owners that the partitions list."""
    return sum(len(read_partition(log.services.store, partition(log, number)).owners) for number in (0, 1))


def test_nothing_lists_a_round_before_its_decision_and_all_of_it_is_visible_after_it(world: LogWorld) -> None:
    round_ = begin(world.log, 0, group_id=GROUP)
    round_.write(written(world.log, {0: [b"a"], 1: [b"b"]}))
    round_.stage_offsets(offsets(world.log, 0))
    assert (uncommitted(world.log), listed(world.log), committed(world.log)) == ([], 0, None)
    round_.decide()

    assert (values(world.log), committed(world.log)) == ([b"a", b"b"], 10)
    assert listed(world.log) == 2
    assert round_.partitions == (partition(world.log, 0), partition(world.log, 1))


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST_REQUEST, Fault.LOST_REPLY])
def test_a_fault_at_any_multi_leaves_each_batch_in_the_log_once_after_a_restart(tmp_path: Path, fault: Fault) -> None:
    multis = restarted_at_every_multi(joining_world, tmp_path, fault, BATCHES, ends=[Crashed, OncelogError])

    assert multis == 2 + BATCHES  # producer ids, a plan, and decisions


def test_a_driver_that_was_superseded_or_timed_out_decides_nothing(world: LogWorld) -> None:
    first = begin(world.log, 0)
    first.write(written(world.log, {0: [b"a"]}))
    second = begin(world.log, 0, "run-2")
    second.write(written(world.log, {0: [b"a"]}))
    with pytest.raises(RunSupersededError):
        first.decide()
    second.abort()
    with pytest.raises(RoundAbortedError):
        second.decide()

    assert uncommitted(world.log) == []


def test_a_decision_of_unknown_outcome_is_asked_for_again(world: LogWorld) -> None:
    begin(world.log, 0).abort()
    store = FaultyStore(world.store())
    log = world.open(store)
    log.services.producer_ids.take()
    round_ = begin(log, 0)
    round_.write(written(log, {0: [b"a"]}))
    store.fail_next(*[Fault.LOST_REQUEST] * 4, Fault.LOST_REPLY)
    with pytest.raises(OutcomeUnknownError):
        round_.decide()
    assert values(world.log) == [b"a"]
    round_.decide()

    assert values(world.log) == [b"a"]


def test_a_step_that_is_too_large_is_taken_apart(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(world.log, 0).decide()
    round_ = begin(world.log, 1, group_id=GROUP)
    round_.write(written(world.log, {0: [b"a"], 1: [b"b"]}))
    round_.stage_offsets(offsets(world.log, 1))
    monkeypatch.setattr(rules, "MULTI_MAX_OPS", 20)
    round_.decide()

    assert values(world.log) == [b"a", b"b"]
    assert committed(world.log) == 20


def test_a_second_write_adds_to_the_first(world: LogWorld) -> None:
    round_ = begin(world.log, 0)
    round_.write(written(world.log, {0: [b"a"]}))
    round_.write(written(world.log, {1: [b"b"]}))
    round_.decide()

    assert values(world.log) == [b"a", b"b"]


def test_batches_are_settled_a_few_at_a_time(world: LogWorld) -> None:
    options = parse_sink_options({"path": "/", "topic": TOPIC, "transactionalIdPrefix": "sink"}, Use.FOREACH_BATCH)
    driver = BatchDriver(LogTarget(world.log, options))
    lists = []
    for batch_id in range(3 * log_target.SETTLED_EVERY):
        blocks = written(world.log, {0: [b"a"]})
        job = [Written(TOPIC, where.partition, block) for where, some in blocks.items() for block in some]
        driver.run(Batch(request(batch_id), lambda task, job=job: job))
        world.time.sleep_ms(SETTLE_LAG_MS)
        lists.append(listed(world.log))

    assert max(lists) == 2 * log_target.SETTLED_EVERY
    assert lists[2 * log_target.SETTLED_EVERY] == log_target.SETTLED_EVERY + 1
    assert len(values(world.log)) == 3 * log_target.SETTLED_EVERY
