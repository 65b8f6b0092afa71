"""Measures what operations cost while a log grows, and writes docs/growth.md with its curves (the full run only).

python -m benchmarks.growth [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import growth_batches, growth_ids, growth_index, growth_partitions
from benchmarks.growth_costs import CPU, Operation

PAGE = Path(__file__).parent.parent / "docs" / "growth.md"
MEMORY = Path("/dev/shm")
"""Where it exists, a log is written there: waiting for a disk costs time, and nothing that is measured here."""

INTRODUCTION = """\
# Growth

What an operation costs while the number of partitions, transactional ids, batches or records grows (`make
bench WHAT=growth`). The counts do not depend on the machine. *Znodes* are those that an operation reads and writes;
each name in a list counts, and each check of a version. *kB* are read from files and written to them, mostly pages of
SQLite. *CPU* is the time that the process computes, without waiting; it is noisy by some tenths.

In the pictures, each line is a cost in relation to that at the smallest size, on logarithmic scales. The dotted line
is what would grow in proportion to the size. The last column of a table is the growth from the smallest to the largest
size. Counts that grow by more than half are explained below their table, and so is a time that doubles: less than that
may be the noise of a busy machine.
"""

CURVES: dict[str, tuple[str, str, Callable[..., list[Operation]]]] = {
    "partitions": ("Partitions", growth_partitions.EXPLANATION, growth_partitions.run),
    "ids": ("Transactional ids", growth_ids.EXPLANATION, growth_ids.run),
    "batches": ("Batches of one query", growth_batches.EXPLANATION, growth_batches.run),
    "index": ("Records of one partition", growth_index.EXPLANATION, growth_index.run),
}
"""By name: heading, explanation, and what measures."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, half a minute; writes no page")
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES), help="these curves alone")
    options = parser.parse_args(arguments)
    for name in options.only:
        heading, explanation, run = CURVES[name]
        print(f"{heading} ...", flush=True)
        folder = Path(tempfile.mkdtemp(prefix="oncelog-growth-", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            operations = run(folder, quick=options.quick)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not options.quick:
            write_part(name, "\n".join(section(name, heading, explanation, operations)))
            print(f"wrote its part of {PAGE}", flush=True)
    return 0


def write_part(name: str, text: str) -> None:
    """Write one curve's part of the page; the others stay as they are."""
    parts = {**_parts(PAGE.read_text() if PAGE.exists() else ""), name: text}
    marked = (f"<!-- part: {each} -->\n{parts[each]}\n<!-- /part -->" for each in CURVES if each in parts)
    PAGE.write_text("\n\n".join([INTRODUCTION.rstrip(), *marked]) + "\n")


def _parts(page: str) -> dict[str, str]:
    return dict(re.findall(r"<!-- part: ([a-z]+) -->\n(.*?)\n<!-- /part -->", page, re.DOTALL))


def section(name: str, heading: str, explanation: str, operations: Sequence[Operation]) -> Iterator[str]:
    """The lines of a curve's part: what it is, its picture, its table, and why some of it grows."""
    yield from (f"## {heading}", explanation.rstrip(), "")
    yield from (f"Measured {datetime.now(UTC):%Y-%m-%d}.", "")
    yield from (f"![{heading}: growth of costs](images/growth-{name}.svg)", "")
    sizes = sorted({size for operation in operations for size in operation.costs})
    yield f"| operation | measured | {' | '.join(map(power_of_ten, sizes))} | growth |"
    yield "|---|---" + "|--:" * (len(sizes) + 1) + "|"
    for operation in operations:
        yield from rows(operation, sizes)
    yield ""
    reasons: dict[str, list[str]] = {}
    for operation in operations:
        if operation.why:
            reasons.setdefault(operation.why, []).append(f"*{operation.name}*")
    for why, names in reasons.items():
        yield textwrap.fill(f"- {', '.join(names)}: {why}", 120, subsequent_indent="  ", break_on_hyphens=False)


def rows(operation: Operation, sizes: Sequence[int]) -> Iterator[str]:
    """The rows of an operation: one for each of its measures, with the time last."""
    first = next(iter(operation.costs.values()))  # what is too little to be measured there is in no ratio
    for measure in sorted(first, key=lambda one: one == CPU):
        found = [operation.costs.get(size, {}).get(measure) for size in sizes]
        cells = ["" if value is None else figure(value) for value in found]
        told = [float(cell.replace(",", "")) for cell in cells if cell]
        yield f"| {operation.name} | {measure} | {' | '.join(cells)} | ×{growth(told[-1] / told[0])} |"


def figure(value: float) -> str:
    """A number with three digits, or all of those before its point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def growth(ratio: float) -> str:
    """A ratio with two digits, or all of those before its point."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def power_of_ten(size: int) -> str:
    """The size, as the heading of a column."""
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(len(str(size)) - 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
