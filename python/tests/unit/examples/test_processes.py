"""Nothing that a program started outlives it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flights.processes import Program, Programs
from tests.support.harness.waiting import until

FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
"""A program with a child in a process group of its own, as Spark's Python workers are."""


def start(programs: Programs, folder: Path, source: str) -> Program:
    return programs.start("family", [sys.executable, "-c", source], os.environ, folder / "log.txt")


def child_of(folder: Path) -> int:
    log = folder / "log.txt"
    until(lambda: log.read_text().endswith("\n"))
    return int(log.read_text())


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


def test_the_end_of_a_session_ends_a_descendant_in_another_process_group(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        program = start(programs, tmp_path, FAMILY)
        child = child_of(tmp_path)
        assert is_running(child)

        program.end_session()

        assert program.was_killed
        assert not is_running(child)


def test_whatever_ends_the_work_ends_the_programs(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Programs(tmp_path) as programs:
        program = start(programs, tmp_path, FAMILY)
        child = child_of(tmp_path)
        raise KeyboardInterrupt

    assert program.was_killed
    assert not is_running(child)


def test_a_failure_shows_the_end_of_what_the_program_printed(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        program = start(programs, tmp_path, "print('one'); raise SystemExit('the reason')")
        until(lambda: program.status is not None)

        assert program.status == 1
        assert "the reason" in str(program.failed("ended early"))
