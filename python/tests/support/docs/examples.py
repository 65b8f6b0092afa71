"""The programs of `examples/`, run as they stand."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs.blocks import ROOT
from tests.support.spark.spark_home import environment

EXAMPLES = ROOT / "examples"


def run_beside(name: str, *arguments: object) -> str:
    """Run an example as a user does, in a process of its own; returns what it printed."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_here(name: str, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example in this process, whose Spark session it finds."""
    from oncelog.spark.logs import close_logs

    program = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(program), *map(str, arguments)])
    try:
        runpy.run_path(str(program), run_name="__main__")
    finally:
        close_logs()


def names() -> set[str]:
    """Of the programs that people copy."""
    return {program.stem for program in Path(EXAMPLES).glob("*.py")}
