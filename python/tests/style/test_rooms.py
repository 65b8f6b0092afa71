"""What one room knows, no other room spells out: architecture.md says that the tree of znodes stands in paths.py."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from oncelog.znodes import paths
from tests.style.tree import place, shipped_modules

FIXED = (*paths.FOLDERS, paths.FORMAT, paths.CLOCK, paths.COMMITS, paths.PRODUCER_IDS, "/files")
MODULE_LINES_MAX = 450
SPELLED_OUT = re.compile(rf"({'|'.join(FIXED)})(/.*)?")


def is_in_znodes(path: Path) -> bool:
    return path.parts[-2] == "znodes"


def spelled_out(path: Path, module: ast.Module) -> list[str]:
    """Where a module names a znode by itself, or puts a path together from one of `paths` and a slash."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SPELLED_OUT.fullmatch(node.value):
            found.append(place(path, node.lineno))
        if isinstance(node, ast.JoinedStr) and "paths." in ast.unparse(node) and "/" in ast.unparse(node):
            found.append(place(path, node.lineno))
    return found


def test_only_paths_knows_the_tree_of_znodes() -> None:
    """The tests that stores must pass write what they like."""
    modules = [(path, module) for path, module in shipped_modules() if path.parent.name != "znode_store_contract"]

    known = {line.split(":")[0] for path, module in modules for line in spelled_out(path, module)}

    assert known == {"python/oncelog/znodes/paths.py"}


def test_only_the_modules_of_payloads_know_what_is_in_a_znode() -> None:
    """They alone turn JSON into values and back; but for the rounds of targets, which are each target's own."""
    elsewhere = [
        place(path, node.lineno)
        for path, module in shipped_modules()
        if not is_in_znodes(path) and path.stem != "committables"
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and node.attr in {"encode", "decode"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "paths"
    ]

    assert elsewhere == []


def test_a_module_can_be_read_in_one_sitting() -> None:
    too_long = [
        f"{place(path, 1)}: {lines} lines"
        for path, _ in shipped_modules()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES_MAX
    ]

    assert too_long == []
