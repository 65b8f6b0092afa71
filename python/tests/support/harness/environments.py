"""Environments of Python beside that of the tests: what is installed in them, and nothing else."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

from tests.support.harness.locks import locked
from tests.support.harness.parts import missing_part

UNREACHABLE = ("Connection", "Temporary failure in name resolution", "No matching distribution found", "timed out")
"""What pip says where it reaches no package index. A dependency that does not exist looks the same, and fails in CI."""

LEAD_ELSEWHERE = {"PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
"""Variables that may lead to the sources, or to another PySpark."""


def plain_variables() -> dict[str, str]:
    """Those of this process that lead nowhere else."""
    return {name: value for name, value in os.environ.items() if name not in LEAD_ELSEWHERE}


def kept_environment(folder: Path, *packages: str) -> Path:
    """The interpreter of an environment with these packages. Who asks first makes it; later runs find it there.

    Skips the running test where pip reaches no package index.
    """
    ready, python = folder / "ready", folder / "bin" / "python"
    if not ready.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not ready.exists():
                venv.create(folder, with_pip=True)
                install(python, *packages)
                ready.touch()
    return python


def install(python: Path, *packages: str) -> None:
    """Have pip install packages beside an interpreter; skips the running test where it reaches no package index."""
    # To compile all of PySpark and pandas takes longer than to install them; Python compiles what is imported.
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages]
    done = subprocess.run(command, env=plain_variables(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        require_index(done.stdout + done.stderr)
        raise AssertionError(done.stdout + done.stderr)


def require_index(output: str) -> None:
    """Skip the running test if this is what pip says where it reaches no package index."""
    if any(sign in output for sign in UNREACHABLE):
        missing_part("a package index", "connect to one, or configure pip to find one")
