"""What keeps the collection generation: writers whose files bear it, as long as they are at work and no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.errors import CorruptDataError
from oncelog.log import collection, generations
from oncelog.log.collection import Collected
from oncelog.ports import ZnodeView
from oncelog.runtime import Log
from oncelog.types import Block, TopicIdPartition
from oncelog.znodes import paths, rules
from tests.support.log.faulty import Fault, FaultyStore, RivalledStore
from tests.support.log.logs import LogWorld, values
from tests.support.log.rounds import PREFIX, begin, written

T = TypeVar("T")

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def log(world: LogWorld) -> Log:
    return world.log


def later(world: LogWorld) -> Collected:
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    return world.log.admin.collect()


def generation(log: Log) -> int:
    return generations.current(log.services.store)


def test_a_round_that_is_open_keeps_the_generation_that_its_files_bear(world: LogWorld, log: Log) -> None:
    round_ = begin(log, 4, timeout_ms=DAY_MS)
    blocks: dict[TopicIdPartition, list[Block]] = written(log, {0: [b"slow"]})
    assert [later(world).generation for _ in range(4)] == [2, 2, 2, 2], "raised once, as it may be"
    (hold,) = later(world).held_by
    assert (hold.owner, hold.writer) == (EMBEDDED.round_path(PREFIX, 1), "micro-batch 4")
    assert hold.age_ms == 5 * limits.GENERATION_MIN_AGE_MS

    round_.write(blocks)
    round_.decide()
    assert values(log) == [b"slow"]
    assert (later(world).generation, later(world).held_by) == (3, ())


@pytest.mark.parametrize(
    "end", [lambda world: world.log.admin.abort_round(PREFIX), lambda world: world.time.pass_ms(DAY_MS + 1)]
)
def test_a_round_that_is_aborted_or_overdue_keeps_nothing(world: LogWorld, end: Callable[[LogWorld], object]) -> None:
    """Nobody may have swept it yet."""
    begin(world.log, 0, timeout_ms=DAY_MS)
    later(world)
    end(world)

    assert [later(world).generation for _ in range(2)] == [3, 4]


def test_a_hold_keeps_the_generation_until_it_is_released(world: LogWorld, log: Log) -> None:
    store = log.services.store
    before, after = generations.hold(store, "a job"), generations.hold(store, "another one")
    assert [later(world).generation for _ in range(3)] == [2, 2, 2]
    assert sorted(hold.owner for hold in later(world).held_by) == sorted([before, after])
    late = generations.hold(store, "a job of now")
    generations.release(store, [before, after])
    generations.release(store, [before])
    assert later(world).generation == 3, "a later writer bears this generation or the one before"
    assert later(world).held_by[0].owner == late


def test_a_hold_that_nobody_releases_ends_by_itself(world: LogWorld, log: Log) -> None:
    generations.hold(log.services.store, "a job that died")
    later(world)
    world.time.pass_ms(limits.HOLD_TIMEOUT_MS)

    assert later(world).generation == 3
    assert log.services.store.children(paths.HOLDS) == []


def test_more_holds_than_a_step_takes_end_all_the_same(
    world: LogWorld, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else collection would fail for good behind a day of jobs that were killed."""
    monkeypatch.setattr(rules, "MULTI_MAX_OPS", 10)
    for _ in range(15):
        generations.hold(log.services.store, "a job that died")
    world.time.pass_ms(limits.HOLD_TIMEOUT_MS + 1)
    log.admin.collect()

    assert log.services.store.children(paths.HOLDS) == []


def test_a_hold_whose_answer_is_lost_is_taken_once(world: LogWorld) -> None:
    store = FaultyStore(world.store(), Fault.LOST_REPLY, at=0)
    held = generations.hold(store, "a job")

    assert [f"{paths.HOLDS}/{name}" for name in world.store().children(paths.HOLDS)] == [held]


def test_a_young_generation_is_held_by_nobody_and_a_dry_run_says_what_the_run_will(world: LogWorld, log: Log) -> None:
    generations.hold(log.services.store, "a job")
    later(world)
    assert log.admin.collect().held_by == ()
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)

    dry, real = log.admin.collect(dry_run=True), log.admin.collect()
    assert (dry.generation, dry.held_by) == (real.generation, real.held_by)
    assert generation(log) == real.generation == 2


class PausedStore(RivalledStore):
    """Its process is stopped before its next step."""

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = limits.TRANSACT_DEADLINE_MS) -> T:
        self.is_overtaken()
        return super().transact(step, deadline_ms=deadline_ms)


def test_a_slow_collection_does_not_set_the_generation_back(world: LogWorld, log: Log) -> None:
    """Others collect between its look at the generation and its step."""
    world.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
    store = PausedStore(world.store())
    store.rival = lambda: [log.admin.collect(), later(world)]

    assert collection.collect(store, log.services.files, now_ms=world.time.now_ms).generation == 3
    assert generation(log) == 3


def test_a_damaged_hold_is_damage_and_names_its_znode(world: LogWorld, log: Log) -> None:
    path = generations.hold(log.services.store, "a job")
    log.services.store.transact(lambda view: view.set(path, b"[]"))
    with pytest.raises(CorruptDataError, match=path):
        later(world)

    (problem,) = log.admin.verify().problems
    assert problem.place == path
