"""What the site does to pages: links to files of the repository lead there, and drawings take the page's colours."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from oncelog.version import REPOSITORY

_log = get_plugin_logger(__name__)
_ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE_AT_TEXT = re.compile(r"(?<=\n```\n)(?=[^\n])|(?<=[^\n]\n)(?=```\w)")
_SEARCH_BOOST = {"reference/options": 8, "concepts/": 0.5, "design/": 0.5}
"""An option's name is found in its table first, and in the account of a simulation last."""

_DRAWING = re.compile(r'<img alt="[^"]*" src="[^"]*?(images/[\w-]+\.svg)" ?/?>')


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ lead to the repository's page of the file, once it has an address (oncelog.version).

    No text shares a paragraph with a block.
    """
    for beginning, boost in _SEARCH_BOOST.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}

    def there(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link["path"]))
        if path.startswith("docs/"):
            return link[0]
        if not (_ROOT / path).exists():
            _log.warning("%s links to %s, which is not in the repository", page.file.src_uri, path)
        return f"[{link['text']}]({REPOSITORY}/blob/main/{path}{link['anchor'] or ''})" if REPOSITORY else link["text"]

    return _FENCE_AT_TEXT.sub("\n", _LINK.sub(there, markdown))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Drawings stand in the page itself, where they follow its light or dark mode; an empty cell heads no column."""
    drawn = _DRAWING.sub(
        lambda found: f'<div class="drawing-frame">{(Path(config.docs_dir) / found[1]).read_text()}</div>', html
    )
    return drawn.replace("<th></th>", "<td></td>")
