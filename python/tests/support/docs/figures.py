"""Figures in the docs, to be compared with what they are figures of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.style.tree import ROOT

CONCEPTS = ROOT / "docs" / "concepts"

SPELLED = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen"}


def text(page: Path) -> str:
    """A page in one line, so that no line break parts a figure from its unit."""
    return " ".join(page.read_text().split())


def guarantees() -> str:
    return text(CONCEPTS / "delivery-guarantees.md")


def number(figure: str) -> int:
    return int(figure.replace(",", ""))


def rows(page: Path) -> Iterator[list[str]]:
    """The cells of each line of the page's tables."""
    return table(page.read_text())


def table(markdown: str) -> Iterator[list[str]]:
    """The cells of each line of the tables."""
    for line in markdown.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
