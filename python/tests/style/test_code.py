"""Rules for code that read its syntax tree. What ruff knows (names, imports, forms of docstrings) is left to ruff."""

from __future__ import annotations

import ast

from tests.style.tree import files, parsed, place, shipped_modules

FUNCTION_LINES_MAX = 70
LINE_LENGTH_MAX = 120


def test_there_is_shipped_code_to_look_at() -> None:
    assert len(list(shipped_modules())) > 5


def test_a_function_fits_on_a_screen() -> None:
    too_long = [
        f"{place(path, node.lineno)} {node.name}: {length} lines"
        for path in files(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert too_long == []


def test_no_test_module_imports_another() -> None:
    """What two of them share has a module of its own: so each can be read, moved and run by itself."""
    imported = {
        place(path, node.lineno)
        for path in files(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        for name in (node.module or "", *(alias.name for alias in node.names))
        if name.split(".")[-1].startswith("test_")
    }

    assert imported == set()


def test_lines_of_java_are_no_longer_than_those_of_python() -> None:
    java = list(files(".java"))
    too_long = [
        place(path, number)
        for path in java
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]

    assert java
    assert too_long == []


SHIPPED_TESTS = {"target_contract", "once_contract", "value_contract", "znode_store_contract"}


def test_shipped_code_checks_with_ensure_since_assert_can_be_switched_off() -> None:
    """But for tests that ship, whose asserts pytest rewrites."""
    asserts = [
        place(path, node.lineno)
        for path, module in shipped_modules()
        if not {path.stem, path.parent.name} & SHIPPED_TESTS
        for node in ast.walk(module)
        if isinstance(node, ast.Assert)
    ]

    assert asserts == []


def test_only_the_command_line_prints() -> None:
    prints = [
        place(path, node.lineno)
        for path, module in shipped_modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Name) and node.id == "print" and path.stem != "cli"
    ]

    assert prints == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [place(path, 1) for path, module in shipped_modules() if not ast.get_docstring(module)]

    assert silent == []
