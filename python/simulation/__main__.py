"""``python -m simulation``: runs seeds, or scenarios with every crash (docs/concepts/simulation.md)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from simulation import exhaustive
from simulation.exhaustive import Explored
from simulation.runner import Report, Run, run_all, seeds_of, silence_warnings
from simulation.shards import Shard
from simulation.swarm import run

FAILURES_SHOWN = 5
"""How many are shown while seeds run; the report shows all."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for. Returns 0 if no law was broken."""
    return run_command(arguments, run, exhaustive.explore, "simulation", __doc__)


class Explore(Protocol):
    """Runs every scenario with a fault at every operation."""

    def __call__(self, *, with_pairs: bool, processes: int, shard: Shard) -> Iterable[Explored]: ...


def run_command(
    arguments: Sequence[str], run: Run, explore: Explore | None, program: str, description: str | None
) -> int:
    """The command line of a swarm.

    Args:
        run: runs one seed.
        explore: runs the scenarios; None if there are none.
        program: the module of the command.
        description: for its help.
    """
    silence_warnings()
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--seeds", default="0-99", help="numbers and ranges, as in 7,100-199")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(1, 1), help="run this part of the seeds, as in 2/4")
    parser.add_argument("--trace", action="store_true", help="print every step of every seed")
    if explore is not None:
        parser.add_argument(
            "--exhaustive", choices=("singles", "pairs"), help="a fault at every operation, or at every two"
        )
    parser.add_argument("--on-log", action="store_true", help="keep the znodes of every seed on a command log")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the report there, as JSON")
    asked = parser.parse_args(arguments)
    if asked.on_log:
        run = partial(run, is_on_log=True)
    if explore is not None and asked.exhaustive:
        with_pairs = asked.exhaustive == "pairs"
        return exhaustive.shown(explore(with_pairs=with_pairs, processes=asked.processes, shard=asked.shard))
    seeds = [seed for seed in seeds_of(asked.seeds) if asked.shard.holds(f"seed {seed}")]
    if asked.trace:
        return max(_traced(run, seed) for seed in seeds)
    sys.stdout.write(f"shard {asked.shard}: {len(seeds):,} seeds\n")
    report = run_all(seeds, asked.processes, _progress, run)
    sys.stderr.write("\n")
    if asked.report:
        asked.report.write_text(json.dumps(report.to_json(), indent=2) + "\n")
    sys.stdout.write(f"{report}\n")
    for _, story in sorted(report.failures.items()):
        sys.stdout.write(f"\n{story}\n")
    return 1 if report.failures else 0


def _traced(run: Run, seed: int) -> int:
    outcome = run(seed)
    for step in outcome.world.trace:
        sys.stdout.write(f"{step}\n")
    sys.stdout.write(f"seed {seed}: {outcome.failure or 'no law is broken'}\ntrace {outcome.world.trace_hash()}\n")
    return 1 if outcome.failure else 0


def _progress(report: Report) -> None:
    rate = report.seeds / report.seconds
    named = f": {', '.join(map(str, sorted(report.failures)[:FAILURES_SHOWN]))}" if report.failures else ""
    sys.stderr.write(f"\r{report.seeds:,} seeds, {rate:.1f} a second, {len(report.failures)} failed{named} ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
