"""Whatever dies or fails at whatever multi: what was decided is finished, what was not is aborted, and nothing twice.

A copier meets every fault at every multi of its life; its upkeep (settling, rolling the index) is part of that life.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.errors import RetriableError
from tests.support.log.copier import Plan, assert_copied_once, copied, copy_in, persevere, prepare
from tests.support.log.faulty import HICCUPS, Crashed, Fault, FaultyStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, started, values

PLAN = Plan(targets=[TOPIC], pause_s=0)
COUNT = 3


@pytest.fixture(autouse=True)
def _short_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the copier rolls the index on its way."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 5)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)


def every_multi(folder: Path, kind: str, fault: Fault) -> Iterator[tuple[LogWorld, FaultyStore]]:
    """A fresh log for each multi of the copier's life, with a store that fails there."""
    at = 0
    while True:
        with log_world(folder / str(at), kind) as world:
            prepare(world.log, PLAN, COUNT)
            store = FaultyStore(world.store(), fault, at)
            yield world, store
            if not store.has_struck:
                assert at > 20, "the copier's life has many multis"
                return
        at += 1


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("memory", Fault.CRASH_AFTER),
        pytest.param("memory", Fault.CRASH_BEFORE, marks=pytest.mark.slow),
        pytest.param("sqlite", Fault.CRASH_AFTER, marks=pytest.mark.slow),
    ],
)
def test_a_process_that_dies_at_any_multi_leaves_what_the_next_one_finishes(
    tmp_path: Path, kind: str, fault: Fault
) -> None:
    """conformance: 14, 25, 44."""
    for world, store in every_multi(tmp_path, kind, fault):
        with suppress(Crashed):
            copy_in(world, world.open(store), PLAN)

        copied(world.log, PLAN)
        copy_in(world, world.open(), PLAN)
        assert_copied_once(world.log, PLAN, COUNT)


@pytest.mark.parametrize("fault", [HICCUPS[0], *(pytest.param(fault, marks=pytest.mark.slow) for fault in HICCUPS[1:])])
def test_a_lost_or_refused_multi_is_repeated_by_its_caller_and_nothing_happens_twice(
    tmp_path: Path, fault: Fault
) -> None:
    """conformance: 15, 16, 33."""
    for world, store in every_multi(tmp_path, "memory", fault):
        copy_in(world, world.open(store), PLAN)

        assert_copied_once(world.log, PLAN, COUNT)


def test_a_lost_answer_of_a_commit_does_not_burn_an_epoch_when_it_is_repeated(tmp_path: Path) -> None:
    """conformance: 15."""
    epochs = set()
    for fault in (Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.UNAVAILABLE):
        for at in range(2):
            with log_world(tmp_path / f"{fault}{at}") as world:
                world.log.create_topic(TOPIC)
                world.log.services.producer_ids.take()
                store = FaultyStore(world.store())
                log = world.open(store)
                log.services.producer_ids.take()
                producer = log.producer(transactional_id="copier")
                store.fail_next(*[None] * at, fault)
                persevere(producer.init_transactions)
                producer.begin_transaction()
                producer.send(TOPIC, b"a")
                persevere(producer.commit_transaction)
                epochs.add(log.services.coordinator.describe("copier").epoch)
                assert store.has_struck
                assert values(world.log) == [b"a"]

    assert epochs == {1}


def test_a_step_that_failed_changes_nothing_in_memory(tmp_path: Path) -> None:
    """conformance: 16."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC)
        store = FaultyStore(world.store())
        producer = started(world.open(store))
        producer.begin_transaction()
        producer.send(TOPIC, b"a")
        producer.flush()
        for _ in range(3):
            store.fail_next(Fault.UNAVAILABLE)
            with pytest.raises(RetriableError):
                producer.commit_transaction()

        producer.commit_transaction()
        assert values(world.log) == [b"a"]
