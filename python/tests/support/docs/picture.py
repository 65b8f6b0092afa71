"""The picture in the README: the top of the page of the last `make run`, in light and dark, and in words.

cd python && python -m tests.support.docs.picture        # or: make docs WHAT=picture
"""

from __future__ import annotations

import html
import re
from base64 import b64decode
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Locator, Page, ViewportSize

from tests.support.harness import browser

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "build" / "flights.html"
IMAGES = ROOT / "docs" / "images"
README = ROOT / "README.md"

VIEWPORT = ViewportSize(width=1160, height=1000)
SCALE = 1.5
"""Pixels of the picture to one of the page, for dense screens."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

ALT = re.compile(r'(?<=alt=")[^"]*(?=" src="docs/images/make-run-light\.webp")')


def take(chromium: Browser, report: Path, images: Path, readme: Path) -> None:
    """Photograph a report, and write what it says into the README.

    Raises:
        SystemExit: the report says that oncelog failed.
    """
    for scheme in SCHEMES:
        with chromium.new_page(viewport=VIEWPORT, color_scheme=scheme) as page:
            page.goto(report.as_uri())
            if page.locator("article").first.get_by_text("✓ exactly once").count() == 0:
                raise SystemExit(f"{report} says that oncelog failed: that is no picture for the README")
            (images / f"make-run-{scheme}.webp").write_bytes(_photograph(page))
            words = html.escape(_in_words(page))
    readme.write_text(ALT.sub(words, readme.read_text(encoding="utf-8")), encoding="utf-8")


def _photograph(page: Page) -> bytes:
    """All down to the end of the cards. WebP takes half of PNG's bytes here, and Chromium itself writes it."""
    bottom = page.evaluate("document.querySelector('.cards').getBoundingClientRect().bottom")
    clip = {"x": 0, "y": 0, "width": VIEWPORT["width"], "height": bottom, "scale": SCALE}
    wanted = {"format": "webp", "quality": 85, "captureBeyondViewport": True, "clip": clip}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", wanted)
    return b64decode(taken["data"])


def _in_words(page: Page) -> str:
    """The title, and the figures of each pipeline."""
    pipelines = (f"{card.locator('h2').inner_text()}: {_figures(card)}" for card in page.locator("article").all())
    told = (page.locator("h1").inner_text(), *pipelines, "Below, the timeline of each: offsets, lag, batches and kills")
    return "".join(f"{sentence}. " for sentence in told).rstrip()


def _figures(card: Locator) -> str:
    names, counts = card.locator("dt").all_inner_texts(), card.locator("dd").all_inner_texts()
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))


if __name__ == "__main__":
    executable = browser.chromium()
    if executable is None:
        raise SystemExit(f"the picture needs Chromium: {browser.REMEDY}")
    with browser.running(executable) as running:
        take(running, PAGE, IMAGES, README)
