"""What a benchmark found, and the page it becomes."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


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


def table(findings: Sequence[Finding]) -> str:
    """Findings as a Markdown table."""
    lines = ["| measured | oncelog | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    marks = {True: "met", False: "**missed**", None: ""}
    lines += [f"| {f.what} | {f.ours} | {f.peer} | {f.ratio:.2f} | {f.target} | {marks[f.is_met]} |" for f in findings]
    return "\n".join(lines) + "\n"


def page(sections: Sequence[tuple[str, str, Sequence[Finding]]], command: str) -> str:
    """The whole report.

    Args:
        sections: heading, explanation, findings.
        command: that measured them.
    """
    parts = [
        "# Benchmarks\n",
        f"Measured {datetime.now(UTC):%Y-%m-%d} by `{command}`: every peer in the same run, interleaved with oncelog, "
        "medians of warm runs. Machines differ and this one is noisy: read the ratios, not the rates.\n",
        f"{os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, PySpark {version('pyspark')}, pyarrow {version('pyarrow')}, "
        f"fastavro {version('fastavro')}.\n",
    ]
    for heading, explanation, findings in sections:
        parts += [f"## {heading}", f"{explanation}\n", table(findings)]
    return "\n".join(parts)


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
