"""``python -m integration_tests.soak``: a copy that must be exact, under faults, on three stacks."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from integration_tests.soak.disks import remove_leftovers
from integration_tests.soak.lap import Lap, Result, laps
from integration_tests.soak.programs import ROOT
from integration_tests.soak.stacks import STACKS
from tests.support.spark.spark_home import lean_spark_home

WORK = ROOT / "build" / "soak"
ENDING_S = 20
"""What the end of a lap takes, about: the rest of its time is for faults."""


def main(arguments: Sequence[str]) -> int:
    """Run the laps and print the table.

    Returns:
        0 if everything that was written is there once, 1 if not, or if a copy got stuck.
    """
    chosen = _parser().parse_args(arguments)
    seed = random.randrange(2**32) if chosen.seed is None else chosen.seed
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    console.print(f"seed {seed}: it chooses the faults; when they meet the programs is a matter of real time")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chance, results = random.Random(seed), list[Result]()
    remove_leftovers(WORK)
    shutil.rmtree(WORK, ignore_errors=True)
    lean_spark_home()  # or drivers would make it, and be killed before they have
    show = _Progress(console)
    try:
        for number, (stack, seconds) in enumerate(laps(chosen.minutes, chosen.stacks)):
            folder = WORK / f"{number}-{stack}"
            lap = Lap(stack, folder, max(0.0, seconds - ENDING_S), chance, chosen.rate, show)
            results.append(lap.run())
            _tell(console, results[-1])
            if results[-1].is_good and not chosen.keep:
                shutil.rmtree(folder)
    except KeyboardInterrupt:
        console.print("interrupted: what was not judged is not counted")
    finally:
        WORK.mkdir(parents=True, exist_ok=True)
        report = {"seed": seed, "minutes": chosen.minutes, "laps": [result.to_json() for result in results]}
        (WORK / "report.json").write_text(json.dumps(report, indent=1))
    console.print(_table(results))
    console.print(f"report: {WORK / 'report.json'}", soft_wrap=True)
    is_good = bool(results) and all(result.is_good for result in results)
    return 0 if is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration_tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of all stacks together, ends of laps included")
    parser.add_argument(
        "--stacks", type=lambda text: text.split(","), default=list(STACKS), help="sqlite,zookeeper,kafka"
    )
    parser.add_argument("--seed", type=int, help="of the faults")
    parser.add_argument(
        "--rate", type=int, default=30_000, help="records a second that are fed; each is copied 2-3 times"
    )
    parser.add_argument("--keep", action="store_true", help="keep what good laps leave, too")
    return parser


class _Progress:
    """One line that changes, on a terminal; elsewhere a line every ten seconds."""

    EVERY_S = 10.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = time.monotonic()
        self._shown_s = -self.EVERY_S

    def __call__(self, text: str) -> None:
        now_s = time.monotonic()
        line = f"{now_s - self._began_s:5.0f} s  {text}"
        if self._console.is_terminal:
            self._console.print(f"\r\033[K{line}", end="", soft_wrap=True, markup=False)
        elif now_s > self._shown_s + self.EVERY_S:
            self._shown_s = now_s
            self._console.print(line, soft_wrap=True, markup=False)


def _tell(console: Console, result: Result) -> None:
    if console.is_terminal:
        console.print()
    console.print(f"{result.stack}: disk full by {result.disk}; judged in {result.judged_s:.1f} s", soft_wrap=True)
    if result.stuck:
        console.print(f"stuck: {result.stuck}", style="red", markup=False, soft_wrap=True)
    elif not result.is_good:
        console.print(str(result.report), style="red", markup=False, soft_wrap=True)


def _table(results: Sequence[Result]) -> Table:
    columns = ("records fed", "copies", "transactions", "aborted", "batches", "kills", "pauses", "disk full")
    table = Table("stack", *columns, "recovered", "median s", "max s", "anomalies")
    for name, found in [*((result.stack, [result]) for result in results), ("all", list(results))]:
        times = sorted(time_s for result in found for time_s in result.recoveries_s) or [0.0]
        counts = [
            sum(result.fed for result in found),
            sum(result.copied for result in found),
            sum(result.transactions for result in found),
            sum(result.aborted for result in found),
            sum(result.batches for result in found),
            sum(sum(result.kills.values()) for result in found),
            sum(sum(result.pauses.values()) for result in found),
            sum(result.disk_full for result in found),
            sum(len(result.recoveries_s) for result in found),
        ]
        anomalies = sum(sum(result.report.anomalies.values()) for result in found)
        is_stuck = any(result.stuck for result in found)
        texts = [f"{count:,}" for count in counts]
        table.add_row(
            name, *texts, f"{times[len(times) // 2]:.1f}", f"{times[-1]:.1f}", "stuck" if is_stuck else f"{anomalies:,}"
        )
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
