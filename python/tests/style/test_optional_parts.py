"""oncelog works without its extras, and does not load them before they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.style.tree import ROOT

EXTRAS = [
    *("pyspark", "py4j", "pandas", "kazoo", "botocore", "psycopg", "adbc_driver_manager", "kafka"),
    *("deltalake", "pyiceberg", "urllib3"),
]


def run_python(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["oncelog", "oncelog.cli"])
def test_a_module_imports_where_no_extra_is_installed(module: str) -> None:
    run_python(
        f"import sys\n"
        f"sys.modules.update(dict.fromkeys({EXTRAS!r}))  # an import of None raises ModuleNotFoundError\n"
        f"import {module}\n"
    )


def test_an_import_loads_no_extra_that_is_installed() -> None:
    run_python(
        f"import sys\n"
        f"import oncelog\n"
        f"loaded = [name for name in {EXTRAS!r} if name in sys.modules]\n"
        f"sys.exit(f'import oncelog loads {{loaded}}' if loaded else 0)\n"
    )


def test_each_part_that_needs_an_extra_says_which_one_to_install() -> None:
    hidden = [*EXTRAS, "greenlet", "pytest", "hypothesis"]
    tried: list[str | Path] = [sys.executable, ROOT / "tools" / "doors.py", *hidden]
    done = subprocess.run(tried, cwd=ROOT / "python", capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["txn", "list"], ["--brokers", "h1:9092", "txn", "list"], ["-x"]])
def test_a_command_that_needs_an_extra_says_which_one_to_install_whatever_follows_it(words: list[str]) -> None:
    script = f"import sys\nsys.modules['kafka'] = None\nfrom oncelog.cli import main\nmain(['kafka', *{words!r}])\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "python", capture_output=True, text=True, check=False
    )

    said = "oncelog: this command needs the package kafka: install oncelog[kafka] as the README says\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
