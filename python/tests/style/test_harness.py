"""The harness itself: a leak fails its test, and a missing part fails where all parts are required."""

from __future__ import annotations

import pytest

from tests.style.tree import ROOT

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.programs

CONFTEST = ROOT / "python" / "tests" / "conftest.py"

LEAKS = """
import subprocess, threading, time
import pytest

KEPT = []

def test_process():
    subprocess.Popen(["sleep", "3"])

def test_thread():
    threading.Thread(target=time.sleep, args=(3,), name="forgotten").start()

def test_file(tmp_path):
    KEPT.append(open(tmp_path / "kept", "w"))

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()

def test_what_a_wider_fixture_holds_is_no_leak_of_its_test(server):
    assert server.poll() is None

def test_what_is_closing_has_time_to_end():
    threading.Thread(target=time.sleep, args=(0.1,)).start()
"""

SKIPS = """
import pytest
from tests.parts import missing_part

def test_needs_a_moon():
    missing_part("a moon", "wait for the night")

def test_is_for_another_system():
    pytest.skip("only on the moon")
"""

SKIPPED_MODULE = """
from tests.parts import missing_part
missing_part("a sun", "wait for the day")
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A pytest run of its own, in its own process, with our conftest and little patience for leaks."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.delenv("ONCELOG_CI_REQUIRE", raising=False)
    patience = "\nimport tests.leaks\ntests.leaks.GRACE_S = 0.5\n"
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8") + patience)
    return pytester


def test_what_a_test_leaves_behind_fails_it(inner: pytest.Pytester) -> None:
    inner.makepyfile(LEAKS)

    result = inner.runpytest_subprocess("--verbose")

    result.assert_outcomes(passed=5, errors=3)
    result.stdout.fnmatch_lines([
        "*the test left behind:", "process *: sleep 3",
        "*the test left behind:", "thread forgotten",
        "*the test left behind:", "open file *kept",
    ])  # fmt: skip


def test_a_missing_part_is_a_skip_on_a_desk(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_tests=SKIPS, test_module=SKIPPED_MODULE)

    result = inner.runpytest_subprocess("-rs")

    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(["*missing part: a moon; wait for the night", "*missing part: a sun; *"])


def test_a_missing_part_is_a_failure_where_all_parts_are_required(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_CI_REQUIRE", "1")
    inner.makepyfile(test_tests=SKIPS, test_module=SKIPPED_MODULE)

    result = inner.runpytest_subprocess("--continue-on-collection-errors")

    result.assert_outcomes(failed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines_random(["*missing part: a moon; wait for the night (*", "*missing part: a sun; *"])
