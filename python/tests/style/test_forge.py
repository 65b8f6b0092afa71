"""What the forge runs is what the project says: its workflows call make, on the versions that are supported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.style.tree import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TESTS = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_the_actions_that_it_runs_and_calls_targets_that_there_are(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.+)", text)

    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []
    called = set(re.findall(r"\bmake ([a-z-]+)", text))
    assert called <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_a_target_whose_program_asks_for_the_jars_builds_them_first() -> None:
    """In a clone that has built nothing, too: a tree in which tests run has the jars."""
    rules = re.findall(r"^([a-z-]+):([^#\n]*).*\n((?:\t.*\n)*?)\t\$\(BIN\)/python (\S+\.py)", MAKEFILE, re.MULTILINE)
    asking = {
        name: f"{needed} {made}" for name, needed, made, path in rules if ".configure(" in (ROOT / path).read_text()
    }

    assert "quickstart" in asking
    assert [name for name, before in asking.items() if not {"shims", "$(SHIMS)"}.intersection(before.split())] == []


def test_every_demonstration_can_be_chosen() -> None:
    programs = re.findall(r"^DEMO\.(\w+)", MAKEFILE, re.MULTILINE)

    assert re.findall(r"^demo\.WHAT := (.+)$", MAKEFILE, re.MULTILINE) == [" ".join(programs)]


def test_the_forge_tests_each_supported_python_and_each_older_spark() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    pythons = [found[1] for one in classifiers if (found := re.fullmatch(r".* :: Python :: (3\.\d+)", one))]

    assert _matrix("python") == pythons
    assert _matrix("spark") == re.search(r"^SPARKS \?= (.+)$", MAKEFILE, re.MULTILINE)[1].split()  # type: ignore[index]


def _matrix(name: str) -> list[str]:
    listed = re.search(rf"^ +{name}: \[(.+)\]$", TESTS, re.MULTILINE)
    assert listed is not None
    return re.findall(r'"([^"]+)"', listed[1])
