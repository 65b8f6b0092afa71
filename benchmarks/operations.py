"""Runs the benchmarks of what observing costs and writes their part of docs/benchmarks.md (the full run only).

python -m benchmarks.operations [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks import operations_observing, operations_page, operations_scrape, report
from benchmarks.operations_places import places
from benchmarks.report import Finding, Section

INTRODUCTION = """\
What it costs to be watched. Figures are medians, with the middle half of the runs in brackets. Servers, queries and
those who watch share the same two cores."""

OF_PLACES: dict[str, tuple[str, str, Callable[..., list[Finding]]]] = {
    "scrape": ("A scrape", operations_scrape.EXPLANATION, operations_scrape.run),
    "page": ("The page", operations_page.EXPLANATION, operations_page.run),
}
OBSERVE = "observe"


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs, five minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=[OBSERVE, *OF_PLACES], help="these benchmarks alone")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="oncelog-bench-operations-"))
    try:
        sections = list(_run(folder, options.only or [OBSERVE, *OF_PLACES], quick=options.quick))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.quick and options.only is None:
        report.write_part("Being watched", INTRODUCTION, sections, "make bench WHAT=operations")
        print(f"wrote {report.PAGE}")
    return 0


def _run(folder: Path, wanted: Collection[str], *, quick: bool) -> Iterator[Section]:
    if OBSERVE in wanted:
        measure = partial(operations_observing.run, folder / OBSERVE, quick=quick)
        yield report.section("Queries that are observed", operations_observing.EXPLANATION, measure)
    if not OF_PLACES.keys() & set(wanted):
        return
    with places(folder) as found:
        for name, (heading, explanation, run) in OF_PLACES.items():
            if name in wanted:
                yield report.section(heading, explanation, partial(run, found, quick=quick))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
