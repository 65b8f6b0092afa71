"""Runs many seeds, divided over processes, and adds up their results."""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

from oncelog.errors import UsageError
from simulation.swarm import STORY_STEPS, Outcome, run

SLICE = 50
"""How many seeds a process gets at a time."""

COLLECTED_AFTER = 10
"""How many seeds run between two garbage collections; each leaves about half a megabyte in reference cycles."""

_YOUNG = 1
"""The generation of Python's garbage collector that includes everything since the last collection."""


class Run(Protocol):
    """Runs one seed; must be a module's function, so that other processes find it by name."""

    def __call__(self, seed: int, *, steps_kept: int | None = None, is_on_log: bool | None = None) -> Outcome: ...


@dataclass(slots=True)
class Report:
    """The results of some seeds.

    Attributes:
        seeds: how many ran.
        failures: what broke, by seed.
        counts: how often things happened: steps, faults by kind, transactions by outcome.
        seconds: how long it took.
    """

    seeds: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Add another report to this one."""
        self.seeds += other.seeds
        self.failures |= other.failures
        self.counts += other.counts

    def to_json(self) -> dict[str, Any]:
        """The report in JSON's types."""
        failures = {str(seed): text for seed, text in sorted(self.failures.items())}
        counts = dict(sorted(self.counts.items()))
        return {"seeds": self.seeds, "seconds": round(self.seconds, 1), "failures": failures, "counts": counts}

    def __str__(self) -> str:
        counted = "\n".join(f"{count:>12,} {name}" for name, count in sorted(self.counts.items()))
        rate = self.seeds / self.seconds if self.seconds else 0.0
        total = f"{self.seeds:,} seeds in {self.seconds:.1f} s ({rate:.1f} a second), {len(self.failures)} failed"
        return f"{counted}\n{total}"


def seeds_of(text: str) -> list[int]:
    """Parse seeds as a user gives them: numbers and ranges, like ``7,100-199``.

    Raises:
        UsageError: the text is malformed.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()):
            raise UsageError("seeds are numbers and ranges, such as 7,100-199", found=text)
        found += range(int(first), int(last) + 1)
    return found


def run_seeds(seeds: Sequence[int], run: Run = run) -> Report:
    """Run some seeds in this process."""
    report, began = Report(), time.monotonic()
    with _collecting_by_hand():
        for seed in seeds:
            report.add(_run_one(seed, run))
            if report.seeds % COLLECTED_AFTER == 0:
                gc.collect(_YOUNG)
    report.seconds = time.monotonic() - began
    return report


def _run_one(seed: int, run: Run) -> Report:
    outcome = run(seed, steps_kept=STORY_STEPS)
    failures = {} if outcome.failure is None else {seed: outcome.story()}
    return Report(1, failures, outcome.counts())


@contextmanager
def _collecting_by_hand() -> Iterator[None]:
    """Turn automatic garbage collection off during the block, because it would take a tenth of the runs' time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def silence_warnings() -> None:
    """Keep warnings off the terminal of this process: simulated processes often die with unsent records."""
    logging.getLogger("oncelog").addHandler(logging.NullHandler())


def run_all(seeds: Sequence[int], processes: int, on_progress: Callable[[Report], None], run: Run = run) -> Report:
    """Run seeds in several processes.

    Args:
        processes: how many at a time.
        on_progress: called with the report so far after each slice.
        run: runs one seed.
    """
    report, began = Report(), time.monotonic()
    slices = [seeds[at : at + SLICE] for at in range(0, len(seeds), SLICE)]
    for part in _reports(slices, processes, run):
        report.add(part)
        report.seconds = time.monotonic() - began
        on_progress(report)
    return report


def _reports(slices: Sequence[Sequence[int]], processes: int, run: Run) -> Iterator[Report]:
    if processes == 1 or len(slices) == 1:
        yield from map(partial(run_seeds, run=run), slices)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=silence_warnings) as pool:
        for done in as_completed([pool.submit(run_seeds, some, run) for some in slices]):
            yield done.result()
