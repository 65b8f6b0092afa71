"""The page of ``oncelog ui`` as a process serves it, for tests that look at it in a browser."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.support.log.shell import serving

HOSTILE = "<img src=x onerror=\"document.title='owned'\">'; rm -rf ~ & \u202egnp.exe"
HOSTILE_SHOWN = HOSTILE.replace("\u202e", "\\u202e")
"""The same, without the character that turns the text behind it around."""

PICTURES = os.environ.get("ONCELOG_UI_PICTURES")
"""A folder for pictures of the page, for people who change it."""


@contextmanager
def served(folder: Path, *more: str | Path, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """The page of the log in a folder; yields its URL."""
    with serving("ui", "--path", folder, "--listen", listen, *more) as (process, url):
        yield url
        process.send_signal(signal.SIGINT)
        process.wait(60)


def take_picture(page: Page, name: str) -> None:
    """Keep how the page looks, if somebody wants to see it."""
    if PICTURES is not None:
        Path(PICTURES, f"{name}.png").write_bytes(page.screenshot(full_page=True))
