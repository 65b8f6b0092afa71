"""The files of the repository, as the tests of its style see them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHIPPED = [ROOT / "python" / "oncelog", ROOT / "python" / "pyspark_oncelog"]
TEST_FOLDERS = [ROOT / "python" / "tests", ROOT / "connectors" / "kafka" / "tests", ROOT / "integration_tests"]

MADE_BY_TOOLS = {"__pycache__", "artifacts", "build", "dist", "metastore_db", "spark-warehouse", "target"}


def files(*suffixes: str, below: Path = ROOT) -> Iterator[Path]:
    """Files below a folder that a person wrote, with one of the suffixes, or all of them."""
    for folder, subfolders, names in os.walk(below):
        subfolders[:] = [name for name in subfolders if name == ".ci" or not name.startswith(".")]
        subfolders[:] = [name for name in subfolders if name not in MADE_BY_TOOLS]
        for name in names:
            is_git = name == ".git"  # a file in a linked worktree
            if not is_git and (not suffixes or name.endswith(suffixes)):
                yield Path(folder, name)


def shipped_modules() -> Iterator[tuple[Path, ast.Module]]:
    """Each module of the wheel with its syntax tree."""
    for package in SHIPPED:
        for path in files(".py", below=package):
            yield path, parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"
