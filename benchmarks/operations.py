"""Runs the benchmarks of what observing costs and writes their part of docs/benchmarks.md (the full run only).

python -m benchmarks.operations [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import operations_page, operations_scrape, report
from benchmarks.operations_places import Place, places
from benchmarks.report import Finding, Section

INTRODUCTION = """\
What it costs to be watched. Figures are medians, with the middle half of the runs in brackets. Servers, queries and
those who watch share the same two cores."""

OF_PLACES: dict[str, tuple[str, str, Callable[..., list[Finding]]]] = {
    "scrape": ("A scrape", operations_scrape.EXPLANATION, operations_scrape.run),
    "page": ("The page", operations_page.EXPLANATION, operations_page.run),
}
"""By name: heading, explanation, and what measures."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs, two minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=OF_PLACES, help="these benchmarks alone")
    options = parser.parse_args(arguments)
    wanted = options.only or list(OF_PLACES)
    folder = Path(tempfile.mkdtemp(prefix="oncelog-bench-operations-"))
    try:
        with places(folder) as found:
            sections = [_section(name, found, quick=options.quick) for name in wanted]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.quick and options.only is None:
        report.write_part("Being watched", INTRODUCTION, sections, "make bench-operations")
        print(f"wrote {report.PAGE}")
    return 0


def _section(name: str, found: list[Place], *, quick: bool) -> Section:
    heading, explanation, run = OF_PLACES[name]
    return report.section(heading, explanation, partial(run, found, quick=quick))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
