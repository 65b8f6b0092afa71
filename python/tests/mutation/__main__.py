"""Plants one fault after the other into a copy of the tree and runs the tests that must catch it.

    python -m tests.mutation [--processes 2] [--only TEXT] [--shard 2/4]

A fault that its tests let pass *survives*: exit code 1. So it is when the text to replace is not there, when the tests
cannot be collected, or when they fail without any fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import Queue
from typing import NamedTuple

from simulation.shards import Shard
from tests.mutation.faults import FAULTS, Fault
from tests.support.harness.parts import CI

PYTHON = Path(__file__).parents[2]
TIMEOUT_S = 120
"""A fault may make a test wait for ever: that is caught, too."""

SAME_EXAMPLES = {"HYPOTHESIS_PROFILE": CI}
"""For random tests: what they catch today they catch tomorrow, too."""

TESTS_FAILED = 1
"""pytest's exit code."""


class Verdict(StrEnum):
    """What became of a fault."""

    CAUGHT = "caught"
    HUNG = "caught: its tests hang"
    SURVIVED = "SURVIVED"
    BROKEN = "its tests do not run"


class Outcome(NamedTuple):
    """A fault, what became of it, after how long, and the end of what pytest said."""

    fault: Fault
    verdict: Verdict
    seconds: float
    said: str


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="faults with this in their name")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(1, 1), help="this part of them, as in 2/4")
    options = parser.parse_args(arguments)
    faults = [fault for fault in FAULTS if options.only in fault.name and options.shard.holds(fault.name)]
    if not faults:
        parser.error(f"no fault of shard {options.shard} has {options.only!r} in its name")
    print(f"shard {options.shard}: {len(faults)} of {len(FAULTS)} faults", flush=True)
    began = time.monotonic()
    with _trees(options.processes) as trees:
        if not _are_sound(trees, {test for fault in faults for test in fault.tests}):
            return 1
        missed = _report(_planted(trees, faults, options.processes), len(faults))
    print(f"{len(faults) - missed} of {len(faults)} planted faults caught in {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


def _report(outcomes: Iterable[Outcome], total: int) -> int:
    missed = 0
    for number, (fault, verdict, seconds, said) in enumerate(outcomes, 1):
        by = f" by {_first_failure(said)}" if verdict is Verdict.CAUGHT else ""
        print(f"{number:3}/{total}  {seconds:5.1f} s  {verdict}{by}: {fault.name}  ({fault.file})", flush=True)
        if verdict in (Verdict.SURVIVED, Verdict.BROKEN):
            missed += 1
            print(said)
    return missed


def _first_failure(said: str) -> str:
    failed = re.search(r"^(?:FAILED|ERROR) \S*?::(\w+)", said, re.MULTILINE)
    return failed[1] if failed else "its tests"


def _planted(trees: Queue[Path], faults: Sequence[Fault], processes: int) -> Iterator[Outcome]:
    def plant(fault: Fault) -> Outcome:
        tree = trees.get()
        try:
            return _plant(tree, fault)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(plant, faults)


def _plant(tree: Path, fault: Fault) -> Outcome:
    file = tree / "python" / "oncelog" / fault.file
    sound = file.read_text()
    if sound.count(fault.sound) != 1:
        found = f"the text to replace is there {sound.count(fault.sound)} times, and not once"
        return Outcome(fault, Verdict.BROKEN, 0.0, found)
    file.write_text(sound.replace(fault.sound, fault.broken))
    began = time.monotonic()
    try:
        code, said = _run_tests(tree, fault.tests)
    except subprocess.TimeoutExpired:
        return Outcome(fault, Verdict.HUNG, time.monotonic() - began, "")
    finally:
        file.write_text(sound)
    verdict = {0: Verdict.SURVIVED, TESTS_FAILED: Verdict.CAUGHT}.get(code, Verdict.BROKEN)
    return Outcome(fault, verdict, time.monotonic() - began, said)


def _are_sound(trees: Queue[Path], tests: set[str]) -> bool:
    """Whether the tests pass as long as no fault is planted."""
    tree = trees.get()
    try:
        code, said = _run_tests(tree, sorted(tests), workers=os.cpu_count() or 1, timeout_s=10 * TIMEOUT_S)
    finally:
        trees.put(tree)
    if code:
        print(f"the tests fail without any fault\n{said}")
    return code == 0


def _run_tests(tree: Path, tests: Iterable[str], *, workers: int = 0, timeout_s: int = TIMEOUT_S) -> tuple[int, str]:
    python = tree / "python"
    named = [str(python / "tests" / test) for test in tests]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", str(workers), "-p", "no:cacheprovider", *named]
    environment = {**settings, **SAME_EXAMPLES, "PYTHONPATH": str(python)}
    with subprocess.Popen(
        command,
        cwd=python,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # with the servers and sessions that the tests have started
            raise
    return running.returncode, said[-2000:]


@contextmanager
def _trees(count: int) -> Iterator[Queue[Path]]:
    """Copies of the code and the tests, one for each process."""
    trees: Queue[Path] = Queue()
    build = PYTHON.parent / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oncelog-mutation-") as folder:
        for number in range(count):
            tree = Path(folder) / str(number)
            for part in ("python", "connectors"):
                unwanted = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(PYTHON.parent / part, tree / part, ignore=unwanted)
            shutil.copy(PYTHON.parent / "pyproject.toml", tree)
            (tree / "build").symlink_to(build)  # Spark's classes are the same for all trees
            # A fault may be as long as what it replaces, and planted in the same second: times do not tell them apart.
            compile_dir(tree / "python" / "oncelog", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            trees.put(tree)
        yield trees


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
