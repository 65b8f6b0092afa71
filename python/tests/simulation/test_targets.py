"""Queries into simulated places, alone, by `once` and together: no seed breaks a law, and no driver that stands still."""

from __future__ import annotations

import pytest

from oncelog.testing.simulation.faults import OF_OPERATION, Operation
from oncelog.testing.simulation.runner import Report, run_seeds
from oncelog.testing.simulation.targets.swarm import run

pytestmark = pytest.mark.sampled

SEEDS = range(60)

EVENTS = (
    "batches replayed",
    "batches refused by a place",
    "checkpoints lost",
    "other ledgers refused",
    "rounds aborted by an operator",
    "sinks added",
    "speculative tasks",
)


@pytest.fixture(scope="module")
def report() -> Report:
    return run_seeds(SEEDS, run)


def test_no_seed_breaks_a_law(report: Report) -> None:
    """conformance: 44."""
    assert report.failures == {}
    assert report.counts["batches in all targets"] > 2 * len(SEEDS)


def test_everything_happens(report: Report) -> None:
    faults = (f"fault: {fault}" for fault in OF_OPERATION[Operation.PLACE_WRITE])
    assert [what for what in (*EVENTS, *faults) if not report.counts[what]] == []
