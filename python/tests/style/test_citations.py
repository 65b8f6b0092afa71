"""A test cites the laws it proves by their numbers, at the end of a line of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.style.citations import CITATION, LAWS
from tests.style.tree import TEST_FOLDERS, files, parsed, place


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def is_right(line: str) -> bool:
    citation = CITATION.search(line)
    return citation is not None and all(int(number) in LAWS for number in citation[1].split(", "))


def test_every_citation_can_be_read_and_names_a_law_that_exists() -> None:
    wrong = [
        f"{place(path, number)}: {line.strip()}"
        for folder in TEST_FOLDERS
        for path in files(".py", below=folder)
        for number, text in docstrings(path)
        for line in text.splitlines()
        if "conformance:" in line.lower() and not is_right(line)
    ]

    assert wrong == []


def test_a_wrong_citation_is_told_from_a_right_one() -> None:
    assert [is_right(line) for line in ("conformance: 1.", "Proves it. conformance: 22, 68")] == [True, True]
    wrong = ("conformance: 69.", "conformance: 22 and 23", "Conformance: 7", "conformance: 0", "conformance: law 7")
    assert [line for line in wrong if is_right(line)] == []
