"""Targets under one decision are one row of the page, which unfolds to each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import oncelog
from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommitterTarget
from oncelog.batches.ledger import all_kinds
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.errors import StoreUnavailableError
from oncelog.metrics.logs import LogReader
from oncelog.ui.troubles import Commands
from oncelog.ui.view import view
from oncelog.ui.watching import Watcher
from tests.support.harness.browser import DESK, PHONE, accessibility_problems, cut_off, require_chromium, running
from tests.support.log.ui import HOSTILE, HOSTILE_SHOWN, served, take_picture
from tests.support.spark.targets import TextFolder

KINDS = ("files", "once")
"""Kinds of committers; their ledgers are the log's neighbours."""

LONG = HOSTILE + "-" + "x" * 400


class Shelf(TextFolder):
    """A folder that cannot be reached sometimes."""

    is_away = False

    def commit(self, parts: Sequence[str]) -> None:
        if self.is_away:
            raise StoreUnavailableError("the shelf is away")
        super().commit(parts)


class Query:
    """A query that writes to two folders under one decision, with its ledgers in a log."""

    def __init__(self, log: oncelog.Log, folder: Path, prefix: str) -> None:
        self._store = log.services.store
        self._prefix = prefix
        self._runs = count(1)
        self.shelves = [Shelf(folder / kind) for kind in KINDS]

    def run(self, batch_id: int) -> None:
        """Write a batch with both, in a new run; a shelf that is away gets it with a later one."""
        targets = [self._target(number) for number, _ in enumerate(KINDS)]
        request = self._request(batch_id)
        batches = [Batch(request, lambda: ["row"]) for _ in targets]
        with suppress(StoreUnavailableError):
            BatchDriver(*targets).run(*batches)

    def run_alone(self, kind: int, batch_id: int, prefix: str) -> None:
        """Write a batch with one of them, by itself."""
        BatchDriver(self._target(kind)).run(Batch(self._request(batch_id, prefix), lambda: ["row"]))

    def _target(self, kind: int) -> CommitterTarget[Any]:
        return CommitterTarget(self._store, all_kinds()[KINDS[kind]], lambda _: self.shelves[kind])

    def _request(self, batch_id: int, prefix: str | None = None) -> BatchRequest:
        return BatchRequest(
            prefix or self._prefix, "query", "sink", f"run-{next(self._runs)}", batch_id, f"offsets of {batch_id}"
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in KINDS:
        (tmp_path / kind).mkdir()
    return tmp_path


@pytest.fixture
def log(folder: Path) -> Iterator[oncelog.Log]:
    with oncelog.open(folder / "log") as opened:
        yield opened


def sinks(log: oncelog.Log, wanted: str = "") -> tuple[list[Any], list[Any]]:
    """The rows of the sinks, and what each unfolds to."""
    watcher = Watcher(LogReader(log.services).read)
    watcher.look_if_due(1)
    (table,) = (one for one in view(watcher, Commands(()), "log", wanted)["tables"] if one["title"] == "Sinks")
    return table["rows"], table["parts"]


def test_two_targets_of_one_decision_are_one_row_and_unfold_to_each(log: oncelog.Log, folder: Path) -> None:
    query = Query(log, folder, "both")
    query.run(0)
    assert sinks(log)[0] == [["both", "files, once", "query", 0, 1, "visible"]]

    query.shelves[1].is_away = True
    query.run(1)
    rows, parts = sinks(log)
    assert rows == [["both", "files, once", "query", 1, 2, "decided in 1, visible in 1"]]
    assert [(one[1], one[-1]) for one in parts[0]] == [("once", "decided"), ("files", "visible")]
    assert sinks(log, "files")[0] == rows

    query.shelves[1].is_away = False
    query.run(1)
    assert sinks(log)[0] == [["both", "files, once", "query", 1, 2, "visible"]]


def test_targets_with_decisions_of_their_own_stay_apart(log: oncelog.Log, folder: Path) -> None:
    """Also with one query, one batch and one prefix."""
    query = Query(log, folder, "both")
    for kind in range(2):
        query.run_alone(kind, 0, "apart")
    rows, parts = sinks(log)

    assert [(one[0], one[1]) for one in rows] == [("apart", "files"), ("apart", "once")]
    assert parts == [[], []]


@pytest.mark.sampled("the page of oncelog ui")
@pytest.mark.slow
def test_a_row_unfolds_by_a_key_and_stays_so_with_its_focus_while_readings_come(log: oncelog.Log, folder: Path) -> None:
    query = Query(log, folder, LONG)
    query.run(0)
    query.shelves[1].is_away = True
    with running(require_chromium()) as chromium, served(Path(log.path)) as url:
        for name, viewport in (("desk", DESK), ("phone", PHONE)):
            page = chromium.new_page(viewport=viewport, color_scheme="dark" if name == "phone" else "light")
            page.goto(url)
            button = page.get_by_role("button", name=LONG.replace(HOSTILE, HOSTILE_SHOWN))
            expect(button).to_have_attribute("aria-expanded", "false", timeout=60_000)
            expect(page.locator(".part").first).to_be_hidden()
            button.focus()
            page.keyboard.press("Enter")
            expect(page.locator(".part").first).to_be_visible()
            take_picture(page, f"unfolded-{name}")
            check_readable(page)
            if name == "desk":
                query.run(1)
                expect(page.locator("#tables")).to_contain_text("decided in 1, visible in 1", timeout=60_000)
                assert page.evaluate("document.activeElement.className") == "fold"
                expect(page.locator(".part").first).to_contain_text("decided")
                page.keyboard.press("Enter")
                expect(page.locator(".part").first).to_be_hidden()
            page.close()


def check_readable(page: Page) -> None:
    assert accessibility_problems(page) == ""
    assert cut_off(page) == []
    assert page.locator("img").count() == 0
    assert "owned" not in page.title()
