"""Code blocks of Markdown pages: found in the text, and run.

A page is a session. Its `python` blocks share one namespace, as the cells of a notebook do; each `sh` block is a script
of bash. What may differ is where the paths and addresses of the page are: `Places` names the real ones. A block that no
test can run says why, in a comment on the line above it: ``<!-- not run: the reason -->``.

Own code, because what there is (sybil, mktestdocs, pytest-markdown-docs) runs Python alone, or knows neither addresses
to be replaced nor blocks that are left out for a reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[4]

BLOCK = re.compile(
    r"^ *(?:<!-- not run: (?P<reason>[^\n]+) -->\n *)?```(?P<language>[^\n]*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)

PROGRAMS: Final = {"python", "sh"}
TEXTS: Final[Mapping[str, Callable[[str], object]]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "diff": str,
    "dockerfile": str,
    "text": str,
}
"""Languages that are not run, with what reads them where something does."""

Places = Mapping[str, str]
"""What stands in the pages, and what stands for it in a test."""


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes:
        line: of its first line of code, in the page.
        reason: why it is not run, if it is not.
    """

    page: Path
    line: int
    language: str
    code: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def at(self, places: Places) -> str:
        """Its code, for this machine."""
        code = self.code
        for shown, real in places.items():
            code = code.replace(shown, real)
        return code


def pages() -> list[Path]:
    """Every page that readers copy code from."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(page, line, found["language"], textwrap.dedent(found["code"]), found["reason"])


def programs(page: Path) -> list[Block]:
    """Those of its blocks that are run."""
    return [block for block in blocks(page) if block.language in PROGRAMS and block.reason is None]


def run(page: Path, places: Places, folder: Path, namespace: dict[str, Any]) -> None:
    """Run the programs of a page, one after the other.

    Args:
        page: whose blocks.
        places: what is replaced in them.
        folder: where the scripts run.
        namespace: of the Python blocks; it holds what they left behind.
    """
    for block in programs(page):
        if block.language == "sh":
            _run_script(block, places, folder)
        else:
            exec(compile("\n" * (block.line - 1) + block.at(places), str(page), "exec"), namespace)


def _run_script(block: Block, places: Places, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.at(places)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{block} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
