"""Generated pages of the docs are those that the code makes."""

from __future__ import annotations

import subprocess
import sys

from tests.style.tree import ROOT


def test_the_generated_parts_of_the_docs_are_up_to_date() -> None:
    found = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
