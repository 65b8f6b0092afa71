"""Queries into simulated places, alone, by `once` and together: no seed breaks a law, nor a driver that wakes up."""

from __future__ import annotations

import pytest

from oncelog.batches.committables import CommittableAttempt
from simulation import exhaustive as crashes
from simulation.exhaustive import NATURES
from simulation.faults import OF_OPERATION, Operation
from simulation.runner import Report, run_seeds
from simulation.targets import __main__ as command
from simulation.targets import exhaustive
from simulation.targets.swarm import run

SEEDS = range(50)

EVENTS = (
    "batches replayed",
    "batches refused by a place",
    "checkpoints lost",
    "other ledgers refused",
    "rounds aborted by an operator",
    "second calls refused",
    "sinks added",
    "speculative tasks",
)

FOUND = {
    7: "a history was taken over whose last batch only the former query could write: neither query could go on",
    49: "a batch that failed ended as a bug of oncelog, because a sink had it before the others",
    2951: "a sink was added for a query that was refused, and had no batch before; of the harness",
    3779: "the same, beside a folder",
    7794: "two lives added the same sink, one of which had stood still; of the harness",
}
"""What each seed found, in words. A seed is the same run only as long as nobody asks for chance in another order."""


@pytest.fixture(scope="module")
def report() -> Report:
    return run_seeds(SEEDS, run)


def test_no_seed_breaks_a_law(report: Report) -> None:
    assert report.failures == {}
    assert report.counts["batches in all targets"] > 2 * len(SEEDS)


def test_everything_happens(report: Report) -> None:
    faults = (f"fault: {fault}" for fault in OF_OPERATION[Operation.PLACE_WRITE])
    assert [what for what in (*EVENTS, *faults) if not report.counts[what]] == []


@pytest.mark.parametrize("seed", FOUND, ids=[f"{seed}: {what}" for seed, what in FOUND.items()])
def test_a_seed_that_failed_once_fails_no_more(seed: int) -> None:
    outcome = run(seed)

    assert outcome.failure is None, outcome.story()


def test_a_crash_anywhere_breaks_no_law() -> None:
    """The scene of a lake together with a store of the user's; test_exhaustive.py has the others."""
    found = crashes.singles("TogetherOfPlaces", variants=1)

    assert found.failures == {}
    assert found.places >= 10


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(exhaustive.NAMES, reverse=True))
def test_a_driver_that_stands_still_anywhere_beside_another_one_breaks_no_law(name: str) -> None:
    found = exhaustive.singles(name, NATURES[:1])

    assert found.failures == {}
    assert found.places >= 30


@pytest.mark.walk("two drivers that stand still")
@pytest.mark.parametrize("name", exhaustive.NAMES)
def test_two_drivers_that_stand_still_anywhere_break_no_law(name: str) -> None:
    firsts = range(0, exhaustive.singles(name, NATURES[:1]).places, 3)
    for found in (exhaustive.pairs(name, first, NATURES[:1]) for first in firsts):
        assert found.failures == {}


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second does not look whether the round was decided by somebody else."""
    monkeypatch.setattr(CommittableAttempt, "_carry_out", lambda self: None)

    assert exhaustive.singles("IntoAFolder", NATURES[:1]).failures


def test_its_command_says_how_a_seed_is_run_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CommittableAttempt, "_carry_out", lambda self: None)

    assert command.main(["--seeds", "0"]) == 1

    assert "python -m simulation.targets --seeds 0 --trace" in capsys.readouterr().out
