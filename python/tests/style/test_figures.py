"""Figures in the docs: those that a page repeats are the ones that were measured, or are counted."""

from __future__ import annotations

import re

import pytest

from simulation.scenarios import SCENARIOS
from tests.mutation.faults import FAULTS
from tests.style.tree import ROOT
from tests.support.docs.figures import CONCEPTS, SPELLED, guarantees, number, rows, table, text

FLAT_MOST, FLAT_TIME_MOST = 1.5, 2
"""Growth of a count, and of a time on the CPU, that the page does not explain: a busy machine makes times noisy."""

STACKS = ("sqlite", "zookeeper", "kafka")
SEEDS = re.compile(r"^\| \w+ \| (?:([\d,]+) of )?(\d+)-(\d+) \| (?:([\d.]+) million|-) \|", re.MULTILINE)
"""A row of the simulation's ranges: how many ran if not all, the first and the last seed, and the steps if counted."""


def test_the_soaks_figures_are_those_of_its_table() -> None:
    stacks = {name: cells for name, *cells in rows(CONCEPTS / "soak.md")}
    everything = stacks["all"]
    for column in (0, 1, 3, 4, 5, 6):
        assert number(everything[column]) == sum(number(stacks[name][column]) for name in STACKS)

    copies, kills, pauses = number(everything[1]) / 1e6, everything[4], everything[5]
    assert f"{copies:.1f} million copies, {kills} kills, {pauses} pauses" in guarantees()
    assert f"with {kills} kills and {copies:.1f} million copied records" in text(ROOT / "README.md")


def test_the_simulations_figures_are_the_sums_of_its_ranges() -> None:
    ranges = SEEDS.findall((CONCEPTS / "simulation.md").read_text())
    runs = sum(number(some) if some else int(last) - int(first) + 1 for some, first, last, _ in ranges)
    steps = sum(float(counted) for *_, counted in ranges if counted)

    assert f"| {runs:,} runs, {steps:,.0f} million steps |" in guarantees()
    assert ("a million seeds" in text(ROOT / "README.md")) == (runs >= 1_000_000)


def test_what_the_guarantees_count_is_counted() -> None:
    page = guarantees()
    assert f"(`make mutate`) | {len(FAULTS)} |" in page
    assert f"a crash at every point of {SPELLED[len(SCENARIOS)]} scenarios" in page


def test_what_grows_is_explained_below_its_curve() -> None:
    reached = []
    for part in (ROOT / "docs" / "growth.md").read_text().split("\n## ")[1:]:
        (_, _, *sizes, _), _, *lines = table(part)
        reached.append(sizes[-1])
        for operation, measure, *cells, growth in lines:
            values = [float(cell.replace(",", "")) for cell in cells if cell]
            assert float(growth[1:].replace(",", "")) == pytest.approx(values[-1] / values[0], rel=0.06)
            is_flat = max(values) <= (FLAT_TIME_MOST if measure.startswith("CPU") else FLAT_MOST) * values[0]
            assert is_flat or f"*{operation}*" in part, f"{operation}, {measure}: say why it grows"
    assert reached == ["10⁴", "10⁵", "10⁶", "10⁹"]
