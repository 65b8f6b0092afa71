"""Seeded runs of queries that write to Kafka and to other targets under one decision, on simulated parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from oncelog.batches import run as batch_run
from oncelog.batches.transaction import run_steps
from oncelog.ports import ZnodeStore
from oncelog_kafka.sinks.target import KafkaAttempt
from simulation.kafka.together import run
from simulation.runner import Report, run_seeds
from tests.support.simulation.planted import assert_found, named

SEEDS = range(100, 200)
SEEDS_MAX = 300

EVENTS = (
    "batches refused by a place",
    "batches replayed",
    "checkpoints lost",
    "lives ended by RunSupersededError",
    "participants rewritten",
    "producers adopted",
    "rounds aborted by an operator",
    "sinks added",
    "speculative tasks",
    "stages tried again",
)

FOUND = {
    194: "a deposed coordinator called a committed transaction open, and its rows were written again",
    3779: "a replay of an earlier batch ended with what a later one had lost, and said that it must be written by hand",
    6031: "an operator died while he gave up what was lost; of the harness",
}
"""What each seed found, in words. A seed is the same run only as long as nobody asks for chance in another order."""


@pytest.fixture(scope="module")
def report() -> Report:
    return run_seeds(SEEDS, run)


def test_no_seed_breaks_a_law(report: Report) -> None:
    assert report.failures == {}
    assert report.counts["batches in all targets"] > 2 * len(SEEDS)


def test_everything_happens(report: Report) -> None:
    assert [what for what in EVENTS if not report.counts[what]] == []


@pytest.mark.parametrize("seed", FOUND, ids=[f"{seed}: {what}" for seed, what in FOUND.items()])
def test_a_seed_that_failed_once_fails_no_more(seed: int) -> None:
    outcome = run(seed)

    assert outcome.failure is None, outcome.story()


def _with_a_decision_for_each_target(patch: pytest.MonkeyPatch) -> None:
    def one_by_one(store: ZnodeStore, derivations: Iterable[Callable[[], Any]]) -> list[Any]:
        return [result for derive in derivations for result in run_steps(store, [derive])]

    patch.setattr(batch_run, "run_steps", one_by_one)


def _with_commits_before_the_decision(patch: pytest.MonkeyPatch) -> None:
    sound = KafkaAttempt.prepare

    def prepare(self: KafkaAttempt, report: Any) -> None:
        sound(self, report)
        self._brokers.commit(self._written.participants)

    patch.setattr(KafkaAttempt, "prepare", prepare)


def _with_a_replay_that_finishes_nothing(patch: pytest.MonkeyPatch) -> None:
    sound = KafkaAttempt.commit

    def commit(self: KafkaAttempt, report: Any) -> None:
        if self._decided is not None:
            sound(self, report)

    patch.setattr(KafkaAttempt, "commit", commit)


def _with_offsets_that_no_task_sends(patch: pytest.MonkeyPatch) -> None:
    sound = KafkaAttempt._settings
    patch.setattr(
        KafkaAttempt, "_settings", lambda self, *given, **more: {**sound(self, *given, **more), "sourceGroup": None}
    )


PLANTS = named(
    _with_a_decision_for_each_target,
    _with_commits_before_the_decision,
    _with_a_replay_that_finishes_nothing,
    _with_offsets_that_no_task_sends,
)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch)

    assert_found(run, SEEDS_MAX)
