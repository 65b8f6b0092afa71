"""The page as Chromium shows it, of a real log: desk and phone, light and dark, by keys, while the log changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

import oncelog
from tests.support.harness.browser import DESK, PHONE, accessibility_problems, cut_off, require_chromium, running
from tests.support.log.logs import TOPIC, send, started, tp, write_open
from tests.support.log.shell import Shell
from tests.support.log.ui import HOSTILE, HOSTILE_SHOWN, served, take_picture

pytestmark = pytest.mark.slow

IN_TURN = pytest.mark.sampled("the page of oncelog ui")

Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running(require_chromium()) as browser:
        yield browser


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "log")


@pytest.fixture
def log(shell: Shell) -> Iterator[oncelog.Log]:
    """A log with a transaction that hangs, a group that lags, and names that attack."""
    with oncelog.open(shell.folder) as opened:
        opened.create_topic(TOPIC, partitions=2)
        send(opened.producer(), b"a", b"b", b"c")
        opened.admin.alter_offsets("readers", {tp(): 1})
        write_open(started(opened, "hanging", transaction_timeout_ms=1000), b"d", number=1)
        write_open(hostile := started(opened, HOSTILE), b"e")
        yield opened
        hostile.abort_transaction()


@contextmanager
def shown(
    chromium: Browser, shell: Shell, viewport: ViewportSize = DESK, scheme: Scheme = "light"
) -> Iterator[tuple[Page, str]]:
    """The page once it shows the hanging transaction; it must not have met an error or asked another host."""
    with served(shell.folder) as url:
        context = chromium.new_context(viewport=viewport, color_scheme=scheme)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
        page = context.new_page()
        errors: list[str] = []
        asked: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        expect(page.locator("#troubles")).to_contain_text("hanging", timeout=60_000)
        yield page, url
        assert errors == []
        assert all(one.startswith(url) for one in asked)
        context.close()


def test_what_hangs_is_shown_with_its_command_until_somebody_runs_it(
    chromium: Browser, shell: Shell, log: oncelog.Log
) -> None:
    with shown(chromium, shell) as (page, _):
        page.get_by_role("button", name="Copy the command for hanging").click()
        expect(page.locator("#copied")).to_have_text("Copied.")
        command = page.evaluate("navigator.clipboard.readText()")
        assert command == f"oncelog txn abort --path {shell.folder} -- hanging"
        expect(page.locator("#table-Groups + table tbody tr td").nth(2)).to_have_text("2")

        assert shell("txn", "abort", "--", "hanging").exit_code == 0

        expect(page.locator("#quiet")).to_have_text("Nothing is stuck.", timeout=60_000)
        expect(page.locator("#tables")).to_contain_text("hanging: ended")
        log.create_topic("made-while-looking")
        expect(page.locator("#tables")).to_contain_text("made-while-looking-0", timeout=60_000)
        log.admin.delete_topic("made-while-looking")
        expect(page.locator("#tables")).not_to_contain_text("made-while-looking-0", timeout=60_000)


@IN_TURN
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "viewport"), [("desk", DESK), ("phone", PHONE)])
def test_everybody_can_read_it(
    chromium: Browser, shell: Shell, log: oncelog.Log, name: str, viewport: ViewportSize, scheme: Scheme
) -> None:
    with shown(chromium, shell, viewport, scheme) as (page, _):
        take_picture(page, f"{name}-{scheme}")
        assert accessibility_problems(page) == ""
        assert cut_off(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@IN_TURN
def test_names_are_text_and_never_markup(chromium: Browser, shell: Shell, log: oncelog.Log) -> None:
    with shown(chromium, shell) as (page, _):
        expect(page.locator("#tables")).to_contain_text(HOSTILE_SHOWN)
        assert page.locator("img").count() == 0
        assert "owned" not in page.title()


@IN_TURN
def test_keys_reach_the_commands_and_the_filter_and_a_new_reading_takes_no_focus(
    chromium: Browser, shell: Shell, log: oncelog.Log
) -> None:
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.id"
    with shown(chromium, shell) as (page, _):
        order = []
        for _ in range(3):
            page.keyboard.press("Tab")
            order.append(page.evaluate(focused))
        assert order == ["Command for hanging", "Copy the command for hanging", "filter"]

        page.keyboard.type("orders-9")
        expect(page.locator("#table-Partitions")).to_contain_text("(0 of 2)", timeout=60_000)
        log.create_topic("orders", partitions=10)
        expect(page.locator("#table-Partitions")).to_contain_text("(1 of 12)", timeout=60_000)
        assert page.evaluate(focused) == "filter"


@IN_TURN
def test_a_store_that_goes_away_is_said_and_what_was_seen_stays_until_it_is_back(
    chromium: Browser, shell: Shell, log: oncelog.Log
) -> None:
    away = shell.folder.with_name("away")
    with shown(chromium, shell) as (page, _):
        shell.folder.rename(away)
        shell.folder.write_text("not a log")
        expect(page.locator("#state")).to_contain_text("cannot be read", timeout=60_000)
        expect(page.locator("#troubles")).to_contain_text("hanging")
        assert accessibility_problems(page) == ""
        shell.folder.unlink()
        away.rename(shell.folder)
        expect(page.locator("#state")).to_have_text("Live.", timeout=60_000)


@IN_TURN
def test_a_page_whose_server_was_stopped_says_so_and_goes_on_with_the_next_one(
    chromium: Browser, shell: Shell, log: oncelog.Log
) -> None:
    with served(shell.folder) as url:
        page = chromium.new_page()
        page.goto(url)
        expect(page.locator("#troubles")).to_contain_text("hanging", timeout=60_000)
    expect(page.locator("#state")).to_contain_text("server does not answer", timeout=60_000)
    with served(shell.folder, listen=url.removeprefix("http://").removesuffix("/")):
        expect(page.locator("#state")).to_have_text("Live.", timeout=60_000)
    page.close()


@IN_TURN
def test_the_token_opens_the_page_once_and_leaves_the_address(
    chromium: Browser, shell: Shell, log: oncelog.Log, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    with served(shell.folder, "--token-file", tmp_path / "token", listen="0.0.0.0:0") as url:
        url = url.replace("0.0.0.0", "127.0.0.1")
        page = chromium.new_page()
        refused = page.goto(url)
        assert refused is not None
        assert refused.status == 401

        page.goto(f"{url}?token=0123456789abcdef")
        expect(page.locator("#troubles")).to_contain_text("hanging", timeout=60_000)
        assert page.url == url
        page.reload()
        expect(page.locator("#troubles")).to_contain_text("hanging", timeout=60_000)
        page.close()
