"""Fuzz all doors of the product: `python -m tests.fuzz --inputs 1000000 --processes 2`, from the folder `python`.

A finding is written to a file below `--findings`, and the command that replays it is printed. The exit status is 1 if
there was any. Each finding that was ever made has a test in test_findings.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from simulation.shards import Shard
from tests.fuzz import engine, targets
from tests.fuzz.engine import Finding, Report
from tests.fuzz.target import Target, Verdict


def main() -> int:
    asked = _arguments()
    if asked.replay is not None:
        found = Finding.read(asked.replay)
        return _replay(targets.by_name(found.target), found.data)
    names = asked.targets or list(targets.NAMES)
    if asked.input is not None:
        return _replay(targets.by_name(names[0]), None, asked.seed, asked.input)
    print(f"seed {asked.seed}, shard {asked.shard}, {len(names)} targets, {asked.processes} processes", flush=True)
    began_s = time.monotonic()
    every = engine.slices(names, asked.seed, None if asked.seconds else asked.inputs)
    work = (some for some in every if asked.shard.holds(f"{some.target} {some.start}"))
    report = engine.fuzz(work, asked.processes, seconds=asked.seconds, on_new=lambda new: _tell(new, asked.findings))
    _print_table(names, report, time.monotonic() - began_s)
    return 1 if report.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all; each target gets its share")
    parser.add_argument("--seconds", type=float, help="stop after this long, however many inputs there were")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="by default another one each time")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(1, 1), help="run this part of them, as in 2/4")
    parser.add_argument("--targets", nargs="*", choices=targets.NAMES, metavar="TARGET", help=", ".join(targets.NAMES))
    parser.add_argument("--input", type=int, help="run this one input of the seed, of the one target")
    parser.add_argument("--replay", type=Path, help="run the input of a finding's file")
    parser.add_argument("--findings", type=Path, default=Path("../build/fuzz"), help="folder for what is found")
    return parser.parse_args()


def _tell(new: Finding, folder: Path) -> None:
    print(f"\nFOUND {new.key}\n  kept in {new.write(folder)}; again by\n  {new.command()}", flush=True)


def _replay(target: Target, data: bytes | None, seed: int = 0, number: int = 0) -> int:
    """Run one input in this process; what gets out ends it with its stack."""
    target.prepare()
    try:
        given = engine.make_input(target, seed, number) if data is None else data
        print(f"{target.name}: {len(given)} bytes: {given[:300]!r}", flush=True)
        verdict: Verdict = target.check(given)
    finally:
        target.close()
    print(verdict)
    return 0


def _print_table(names: list[str], report: Report, took_s: float) -> None:
    print(f"\n{'target':24} {'inputs':>9} {'clear error':>12} {'correct':>9} {'findings':>9} {'inputs/s':>9}")
    for name in names:
        inputs, per_second = report.inputs[name], report.inputs[name] / max(report.seconds[name], 0.001)
        print(
            f"{name:24} {inputs:9,} {report.refused[name]:12,} {report.correct[name]:9,} {report.found[name]:9,} "
            f"{per_second:9,.0f}"
        )
    total = report.inputs.total()
    print(
        f"{'all':24} {total:9,} {report.refused.total():12,} {report.correct.total():9,} {report.found.total():9,} "
        f"{total / took_s:9,.0f}"
    )
    print(f"{len(report.findings)} different findings in {took_s:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
