"""A Chromium of this machine, for pages that the repository makes. No browser is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.support.harness.parts import missing_part

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REMEDY = "install it and have it in PATH (on Debian: apt-get install chromium)"

PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1280, height=800)

CUT_OFF = """() => [...document.querySelectorAll("body *")].filter((element) => {
    const place = element.getBoundingClientRect();
    return place.width > 0 && (place.right > innerWidth + 0.5 || place.left < -0.5);
}).map((element) => element.outerHTML.slice(0, 80))"""


def chromium() -> str | None:
    """The path of the browser, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def require_chromium() -> str:
    return chromium() or missing_part("Chromium", REMEDY)


@contextmanager
def running(executable: str) -> Iterator[Browser]:
    """A browser for the time of the block. This thread can run no asyncio meanwhile: playwright's loop runs in it."""
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable) as browser:
        yield browser


def accessibility_problems(page: Page, options: Mapping[str, object] | None = None) -> str:
    """What axe finds against WCAG and good practice, with each place; empty if it finds nothing.

    Args:
        options: axe's own; all rules if not given.
    """
    found = Axe().run(page, options=options)
    return str(found.generate_report()) if found.violations_count else ""


def cut_off(page: Page) -> list[str]:
    """What stands out of the page to its left or right, the drawings included: one would have to scroll sideways."""
    return list(page.evaluate(CUT_OFF))
