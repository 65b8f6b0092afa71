"""The results on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from flights.audit import FINDINGS, Result


def show(console: Console, results: Sequence[Result]) -> None:
    """Print what the audit found, and what came of each kill."""
    console.print(_findings(results))
    console.print(_kills(results))


def _findings(results: Sequence[Result]) -> Table:
    table = Table("audit", title="Every late departure, against the CSV", title_justify="left")
    for result in results:
        table.add_column(result.story.pipeline, justify="right")
    for name, label in FINDINGS.items():
        cells = []
        for result in results:
            style = "bold red" if result.findings.is_fault(name) else "default"
            cells.append(f"[{style}]{getattr(result.findings, name):,}[/]")
        table.add_row(label, *cells)
    verdicts = [
        "[bold green]exactly once[/]" if result.findings.is_exact else "[bold red]not exact[/]" for result in results
    ]
    table.add_section()
    table.add_row("verdict", *verdicts)
    return table


def _kills(results: Sequence[Result]) -> Table:
    title = "Seconds from each kill to a new batch, and the copies it left"
    table = Table("", "kill -9", title=title, title_justify="left")
    for result in results:
        table.add_column(result.story.pipeline, justify="right")
        table.add_column("copies", justify="right")
    for number, stories in enumerate(zip(*(result.story.kills for result in results), strict=True), start=1):
        cells = []
        for result, story in zip(results, stories, strict=True):
            copies = result.copies_after(story)
            cells += [f"{story.recovered_s:.1f} s", f"[{'bold red' if copies else 'default'}]{copies:,}[/]"]
        table.add_row(str(number), stories[0].kill, *cells)
    return table
