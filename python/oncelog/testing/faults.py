"""Crash points for tests of what is built on oncelog: run a piece of work once per point, killed there, then go on.

    for point in CRASH_POINTS:
        environment = killing_at(point, mark=tmp_path / point)
        subprocess.run([sys.executable, "job.py"], env=environment)   # dies at the point, if it passes it
        subprocess.run([sys.executable, "job.py"], check=True)        # and recovers

The killed process leaves the file `mark` behind, so the next one passes the point.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from oncelog.crash_points import VARIABLE, CrashPoint
from oncelog.signatures import checked

CRASH_POINTS = tuple(CrashPoint)


@checked
def killing_at(point: StrEnum, mark: Path, *, pid: int = 0) -> dict[str, str]:
    """The environment of a process that is to be killed with SIGKILL the first time it reaches `point`.

    Args:
        point: where: a `CrashPoint`, or one of a connector's.
        mark: a file that does not exist; it is created just before the kill, and prevents a second one.
        pid: a process, or a negated process group, to kill before the one that reaches the point: a task's driver.
    """
    return {**os.environ, VARIABLE: f"{point}:{pid}:{mark}"}
