"""Bugs that tests plant into the code under a simulation, and the seeds that must find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation.runner import Run

Plant = Callable[[pytest.MonkeyPatch], None]


def named(*plants: Plant) -> dict[str, Plant]:
    """The plants by what they do, as the names of their functions say it."""
    return {plant.__name__.strip("_"): plant for plant in plants}


def assert_found(run: Run, seeds: int) -> None:
    """One of the first seeds breaks a law."""
    found = next((seed for seed in range(seeds) if run(seed).failure is not None), None)

    assert found is not None, f"{seeds} seeds do not find it"
