"""Who may import whom among the tests: core tests know no connector, and connectors' tests share by `tests.support`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.style.tree import ROOT, files, parsed, place

CORE = ROOT / "python" / "tests"
OUTSIDE = [ROOT / "connectors", ROOT / "integration_tests", ROOT / "benchmarks", ROOT / "examples"]
CONNECTORS = (
    *("oncelog_kafka", "oncelog_postgres", "oncelog_files", "oncelog_tables", "oncelog_search"),
    "tests.support.connectors",
)
MAY_KNOW_CONNECTORS = [CORE / "support", CORE / "fuzz"]
"""What connectors' tests share, and the fuzzer, which fuzzes those that are installed."""
SHARED = ("tests.support", "tests.conftest")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, with the lines."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def is_below(module: str, packages: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def test_tests_of_the_core_import_no_connector() -> None:
    wrong = [
        f"{place(path, line)}: {module}"
        for path in files(".py", below=CORE)
        if not any(path.is_relative_to(folder) for folder in MAY_KNOW_CONNECTORS)
        for module, line in imported(path)
        if is_below(module, CONNECTORS)
    ]

    assert wrong == []


def test_other_tests_share_with_those_of_the_core_what_is_there_to_be_shared() -> None:
    wrong = [
        f"{place(path, line)}: {module}"
        for folder in OUTSIDE
        for path in files(".py", below=folder)
        for module, line in imported(path)
        if is_below(module, ("tests",)) and not is_below(module, SHARED)
    ]

    assert wrong == []
