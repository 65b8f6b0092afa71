"""A fault at every call of small scenes of the sink breaks no law; the command runs all of them, and pairs."""

from __future__ import annotations

import pytest

from oncelog_kafka.sinks.target import KafkaAttempt
from simulation.faults import Fault
from simulation.kafka.exhaustive import VARIANTS, Played, Variant, pairs, places_of, singles
from simulation.kafka.scenes import SCENES
from simulation.shards import Shard

pytestmark = pytest.mark.sampled

A_FEW = Shard(1, 20)
"""Of the places, in all variants."""


@pytest.mark.parametrize("name", SCENES)
def test_a_fault_anywhere_breaks_no_law(name: str) -> None:
    """conformance: 53, 54, 59."""
    found = singles(name, A_FEW)

    assert found.failures == {}
    assert found.places > 5


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", SCENES)
def test_where_nothing_goes_wrong_nothing_is_left_open(name: str, variant: Variant) -> None:
    """A retry or a copy of a task that lost would hold back every reader until the next lease, or its time-out."""
    assert Played(name, (), variant).failure is None


def test_a_second_crash_anywhere_breaks_no_law() -> None:
    found = pairs("Takeover", 20, VARIANTS[1:2])

    assert found.failures == {}
    assert found.places > 20


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["TakeoverThatLoses", "TakeoverTwice"])
def test_a_group_that_stayed_behind_when_a_query_was_taken_over_holds_nobody_up(name: str, variant: Variant) -> None:
    """The heir's first batch lost the part that moves the group, and it was given up: the next one brings it along."""
    played = Played(name, (), variant)

    assert played.failure is None
    assert played.world.counts["participants given up"] == 2


def test_every_call_to_brokers_and_znodes_is_a_place() -> None:
    calls = [step for step in Played("OneBatch", (), VARIANTS[0]).world.trace if step.operation]

    assert 30 < places_of("OneBatch", (), Fault.CRASH_BEFORE, VARIANTS[0]) < len(calls)


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that aborts before it finishes: what it looked for is gone when the driver dies between."""

    def recover(self: KafkaAttempt, lease: int) -> None:
        self._target.brokers.fence([name for name, _ in self._open_transactions()], self._target.timeout_ms)

    monkeypatch.setattr(KafkaAttempt, "_recover", recover)

    assert Played("Takeover", (), VARIANTS[0]).failure is not None
