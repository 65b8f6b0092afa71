"""The harness itself: a leak fails its test, and a missing part fails where all parts are required."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.style.tree import ROOT

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

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
from tests.support.harness.parts import missing_part

def test_needs_a_moon():
    missing_part("a moon", "wait for the night")

def test_is_for_another_system():
    pytest.skip("only on the moon")
"""

SKIPPED_MODULE = """
from tests.support.harness.parts import missing_part
missing_part("a sun", "wait for the day")
"""

REPEATED = """
import pytest

@pytest.mark.parametrize("store", ["sqlite", pytest.param("zookeeper", marks=pytest.mark.variant)])
class TestLaws:
    def test_a(self, store): pass
    def test_b(self, store): pass
    def test_c(self, store): pass

@pytest.mark.walk
@pytest.mark.parametrize("place", range(3))
def test_walk(place): pass

@pytest.mark.walk("one law")
def test_here(): pass

@pytest.mark.walk("one law")
def test_there(): pass

@pytest.mark.sampled("logins")
@pytest.mark.parametrize("login", range(3))
def test_login(login): pass

@pytest.mark.sampled
@pytest.mark.parametrize("size", range(3))
@pytest.mark.parametrize("store", ["sqlite", pytest.param("zookeeper", marks=pytest.mark.variant(by="zookeeper"))])
def test_copy(store, size): pass
"""
MARKERS = """
[pytest]
markers =
    walk: one
    variant: another
    sampled: a third
"""


TWICE = ["test_a[zookeeper]", "test_b[zookeeper]", "test_c[zookeeper]"]
WALKS = [f"test_walk[{place}]" for place in range(3)]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A pytest run of its own, in its own process, with our conftest and little patience for leaks."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.delenv("ONCELOG_CI_REQUIRE", raising=False)
    patience = "\nimport tests.support.harness.leaks\ntests.support.harness.leaks.GRACE_S = 0.5\n"
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


def ran(inner: pytest.Pytester, *arguments: str) -> list[str]:
    result = inner.runpytest_subprocess("--verbose", *arguments)
    return [line.split()[0].split("::")[-1] for line in result.outlines if " PASSED " in line]


@pytest.mark.sampled("shards")
def test_shards_together_repeat_every_law_and_each_walks_somewhere(inner: pytest.Pytester) -> None:
    inner.makepyfile(REPEATED)
    inner.makeini(MARKERS)

    repeated = "(walk or variant) and not sampled"
    shards = [ran(inner, "-m", repeated, f"--shard={number}/2") for number in (1, 2)]

    assert sorted(sum("walk" in test for test in one) for one in shards) == [1, 2]
    assert sorted(len({"test_here", "test_there"}.intersection(one)) for one in shards) == [1, 1]
    assert sorted(set(chain(*shards))) == sorted([*TWICE, *WALKS, "test_here", "test_there"])
    assert sum("zookeeper" in test for test in chain(*shards)) == 3, "in one shard each, as SQLite is in all"


@pytest.mark.sampled("shards")
def test_a_shard_leaves_out_no_law_and_says_how_to_repeat_it(inner: pytest.Pytester) -> None:
    inner.makepyfile(REPEATED)
    inner.makeini(MARKERS)

    result = inner.runpytest_subprocess("--verbose", "--shard=1/99", "--numprocesses=1")

    result.stdout.fnmatch_lines(["shard 1/99 of *; to repeat it: --shard=1/99"])
    assert len([line for line in result.outlines if "PASSED" in line and "[sqlite]" in line]) == 3


@pytest.mark.sampled("shards")
def test_some_of_a_kind_are_in_each_shard_and_all_in_some(inner: pytest.Pytester) -> None:
    inner.makepyfile(REPEATED)
    inner.makeini(MARKERS)

    shards = [ran(inner, "-m", "variant(by='group')", f"--shard={number}/2") for number in (1, 2)]

    assert sorted(map(len, shards)) == [1, 2]
    assert len(set(chain(*shards))) == 3


@pytest.mark.sampled("shards")
def test_the_first_parameters_are_the_sample_and_the_others_are_variants(inner: pytest.Pytester) -> None:
    inner.makepyfile(REPEATED)
    inner.makeini(MARKERS)

    assert ran(inner, "-k", "test_copy", "-m", "not variant") == ["test_copy[sqlite-0]"]
    assert ran(inner, "-k", "test_copy", "-m", "variant(by='parameter')") == [
        "test_copy[sqlite-1]",
        "test_copy[sqlite-2]",
    ]
    assert ran(inner, "-k", "test_copy", "-m", "variant(by='zookeeper')") == ["test_copy[zookeeper-0]"]


def test_what_is_no_shard_is_refused(inner: pytest.Pytester) -> None:
    result = inner.runpytest_subprocess("--shard=5/4")

    result.stderr.fnmatch_lines(["*argument --shard: a shard is a number out of how many there are*"])
