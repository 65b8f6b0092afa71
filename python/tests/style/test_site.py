"""The site of the docs: it builds without a warning, and a browser that shows it asks no other host for anything."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal

import pytest

from tests.style.tree import ROOT
from tests.support.harness.browser import PHONE, accessibility_problems, require_chromium, running
from tests.support.harness.parts import missing_part

pytestmark = pytest.mark.sampled("pages in a browser")

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|object|embed)\b[^>]*?\b(?:src|data)=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|modulepreload|icon))[^>]*?\bhref=["']?(?:https?:)?//[^>]*>"""
    r"""|url\(["']?(?:https?:)?//[^)]*\)|@import\s+["'](?:https?:)?//[^"']*""",
    re.IGNORECASE,
)
"""What a browser fetches from another host by itself."""

ASKED_BY_SCRIPT = ('data-md-component="source"', 'class="mermaid"')
"""What the theme's script would fetch something for: a forge's stars, and the library that draws Mermaid."""


TEXT_AT_BLOCK = re.compile(r"</pre></div>\n(?!</?(?:p|h\d|[uo]l|li|div|article|details|table)\b|<!--|\s)[^\n]*")
"""A block and a text that are one paragraph of Markdown: the text is in no paragraph of the page."""

SHOWN_AS_TEXT = re.compile(r"<p>(?:(?!</p>|<pre|<[uo]l).)*?\n\s*(?:- |\d+\. |\||```).*", re.DOTALL)
"""A list, table or block in a paragraph: on the site it needs an empty line before it, and in a list four spaces."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("material") is None:
        missing_part("mkdocs-material", "make docs")
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return built


def test_the_site_has_every_page_and_a_search_index(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / built).is_file() or (site / built.with_name("index.html")).is_file(), page
    assert "reference/api/producer.html#oncelog.Producer.send" in (site / "search" / "search_index.json").read_text()


def test_the_reference_names_no_class_that_only_helps_the_code(site: Path) -> None:
    naming = [page.name for page in (site / "reference" / "api").iterdir() if "Guided" in page.read_text()]
    assert naming == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    assert list(loaded(site)) == []


def test_no_list_and_no_table_is_shown_as_text(site: Path) -> None:
    texts = {file.relative_to(site): file.read_text(encoding="utf-8") for file in site.rglob("*.html")}
    assert [f"{file}: {found[0][:80]}" for file, text in texts.items() if (found := SHOWN_AS_TEXT.search(text))] == []


def test_text_around_blocks_is_in_paragraphs(site: Path) -> None:
    found = [
        f"{file.name}: {text}" for file in site.rglob("*.html") for text in TEXT_AT_BLOCK.findall(file.read_text())
    ]
    assert found == []


@pytest.mark.slow
def test_a_phone_shows_pages_without_scrolling_them_sideways(site: Path) -> None:
    widths = {}
    with running(require_chromium()) as chromium, chromium.new_page(viewport=PHONE) as page:
        for name in ("index.html", "guides/kafka.html", "reference/options.html", "reference/api/producer.html"):
            page.goto((site / name).as_uri())
            widths[name] = page.evaluate("document.documentElement.scrollWidth")

    assert widths == dict.fromkeys(widths, PHONE["width"])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_and_links_can_be_told_from_what_is_around_them(site: Path, scheme: Literal["light", "dark"]) -> None:
    problems = {}
    rules = {"runOnly": ["color-contrast", "link-in-text-block", "empty-table-header"]}
    with running(require_chromium()) as chromium, chromium.new_page(color_scheme=scheme) as page:
        for name in ("guides/testing.html", "reference/api/testing.html"):
            page.goto((site / name).as_uri())
            problems[name] = accessibility_problems(page, rules)

    assert problems == dict.fromkeys(problems, "")


@pytest.mark.slow
def test_a_search_for_an_option_finds_its_table_first(site: Path) -> None:
    with served(site) as address, running(require_chromium()) as chromium, chromium.new_page() as page:
        page.goto(f"{address}/index.html?q=groupId")
        first = page.locator(".md-search-result__item h1").first
        first.wait_for(state="attached")
        assert first.text_content() == "Options"


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a server of the site: a page that is a file has no search."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests are not worth a line."""


def loaded(site: Path) -> Iterator[str]:
    for file in site.rglob("*"):
        if file.suffix in {".html", ".css", ".svg"}:
            text = file.read_text(encoding="utf-8")
            yield from (f"{file.relative_to(site)}: {found[0]}" for found in LOADED.finditer(text))
            yield from (f"{file.relative_to(site)}: {asked}" for asked in ASKED_BY_SCRIPT if asked in text)
