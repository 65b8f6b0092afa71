"""What a benchmark found, and the page it becomes."""

from __future__ import annotations

import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

Section = tuple[str, str, Sequence["Finding"]]
"""Heading, explanation, findings."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report.

    Attributes:
        what: was measured.
        ours, peer: with units, as text.
        ratio: ours to the peer, in the sense that the target names.
        target: such as "≥ 0.9", as text; empty where nothing was promised.
        is_met: whether the ratio keeps the target; None where there is none.
    """

    what: str
    ours: str
    peer: str
    ratio: float
    target: str = ""
    is_met: bool | None = None


def at_least(what: str, ours: str, peer: str, ratio: float, least: float | None) -> Finding:
    """A finding whose ratio should be high."""
    if least is None:
        return Finding(what, ours, peer, ratio)
    return Finding(what, ours, peer, ratio, f"≥ {least:g}", ratio >= least)


def at_most(what: str, ours: str, peer: str, ratio: float, most: float) -> Finding:
    """A finding whose ratio should be low."""
    return Finding(what, ours, peer, ratio, f"≤ {most:g}", ratio <= most)


def per_second(count: float, seconds: float) -> str:
    """A rate with a readable unit."""
    rate = count / seconds
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} M/s"
    return f"{rate / 1e3:.1f} k/s" if rate >= 1e4 else f"{rate:.0f}/s"


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    """The median, with the bounds of the middle half of the values."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def section(heading: str, explanation: str, run: Callable[[], Sequence[Finding]]) -> Section:
    """Run a benchmark, and show what it finds."""
    print(f"{heading} ...", flush=True)
    started = time.monotonic()
    findings = run()
    print(f"{table(findings)}({time.monotonic() - started:.0f} s)\n", flush=True)
    return heading, explanation, findings


def table(findings: Sequence[Finding]) -> str:
    """Findings as a Markdown table."""
    lines = ["| measured | oncelog | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    marks = {True: "met", False: "**missed**", None: ""}
    lines += [f"| {f.what} | {f.ours} | {f.peer} | {f.ratio:.2f} | {f.target} | {marks[f.is_met]} |" for f in findings]
    return "\n".join(lines) + "\n"


def write_page(sections: Sequence[Section], command: str) -> None:
    """Write the page; the parts that other commands wrote stay as they are.

    Args:
        sections: of the report.
        command: that measured them.
    """
    parts = re.findall(_part("make [a-z-]+"), _text(), re.DOTALL)
    PAGE.write_text("\n".join([page(sections, command), *parts]))


def write_part(heading: str, introduction: str, sections: Sequence[Section], command: str) -> None:
    """Write one command's own part of the page: where it was, or at the end.

    Args:
        heading, introduction: of the part; what it was measured on is in the latter.
        sections: of the part.
        command: that measured them, which names the part.
    """
    text = "\n".join(
        [
            f"<!-- part: {command} -->",
            f"# {heading}\n",
            f"Measured {datetime.now(UTC):%Y-%m-%d} by `{command}`.\n\n{introduction}\n",
            *_lines(sections),
            "<!-- /part -->\n",
        ]
    )
    page, replaced = re.subn(_part(re.escape(command)), lambda _: text, _text(), flags=re.DOTALL)
    PAGE.write_text(page if replaced else f"{page.rstrip()}\n\n{text}")


def _part(command: str) -> str:
    return rf"<!-- part: {command} -->\n.*?<!-- /part -->\n"


def _text() -> str:
    return PAGE.read_text() if PAGE.exists() else ""


def _lines(sections: Sequence[Section]) -> Iterator[str]:
    for heading, explanation, findings in sections:
        yield from (f"## {heading}", f"{explanation}\n", table(findings))


def page(sections: Sequence[Section], command: str) -> str:
    """The whole report.

    Args:
        sections: of the report.
        command: that measured them.
    """
    parts = [
        "# Benchmarks\n",
        f"Measured {datetime.now(UTC):%Y-%m-%d} by `{command}`. Every peer runs in the same run as oncelog, in turns "
        "with it, and the figures are medians of warm runs. Machines differ, and this one is noisy: read the ratios, "
        "not the rates.\n",
        f"{os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, PySpark {version('pyspark')}, pyarrow {version('pyarrow')}, "
        f"fastavro {version('fastavro')}.\n",
    ]
    return "\n".join([*parts, *_lines(sections)])


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
