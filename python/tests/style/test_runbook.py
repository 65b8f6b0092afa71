"""The runbook: a page for each alert, and the same four parts on every page."""

from __future__ import annotations

import re

from oncelog.metrics.alerts import PAGES
from oncelog.version import REPOSITORY, __version__
from tests.style.tree import ROOT

SYMPTOMS = ROOT / "docs" / "operations" / "symptoms"
INDEX = SYMPTOMS.parent / "runbook.md"
PARTS = ["What you see", "Why", "How to fix it", "How you know it is fixed"]
ROW = re.compile(r"^\| \[[^]]+\]\(symptoms/([\w-]+)\.md\) \| (.+) \|$", re.MULTILINE)

LISTED = re.compile(r"^\| \[`(\w+)`\]\(\.\./operations/symptoms/([\w-]+)\.md\) \|", re.MULTILINE)

PAGE_OF = dict(LISTED.findall((ROOT / "docs" / "reference" / "metrics.md").read_text()))
"""Of each alert, also of those of connectors: the reference is generated from the code."""


def symptoms() -> dict[str, str]:
    return {page.stem: page.read_text() for page in SYMPTOMS.glob("*.md")}


def test_every_page_has_the_same_four_parts() -> None:
    assert {name: re.findall(r"^## (.+)$", text, re.MULTILINE) for name, text in symptoms().items()} == dict.fromkeys(
        symptoms(), PARTS
    )


def test_an_alert_and_its_page_name_each_other() -> None:
    assert len(PAGE_OF) >= 15
    named = {alert: name for name, text in symptoms().items() for alert in re.findall(r"Alert `(\w+)`", text)}
    assert named == PAGE_OF


def test_the_index_lists_every_page_once_with_its_alerts() -> None:
    text = INDEX.read_text()

    assert sorted(re.findall(r"\]\(symptoms/([\w-]+)\.md\)", text)) == sorted(symptoms())
    assert {alert: page for page, cell in ROW.findall(text) for alert in re.findall(r"`(\w+)`", cell)} == PAGE_OF


def test_the_address_of_the_pages_is_their_place_in_the_repository() -> None:
    assert PAGES.removeprefix(f"{REPOSITORY}/blob/v{__version__}/") == str(SYMPTOMS.relative_to(ROOT))
