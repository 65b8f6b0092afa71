"""Crash points for tests: run a piece of work once per crash point, killed at that point, and then run it again.

    for point in CRASH_POINTS:
        environment = killing_at(point, mark=tmp_path / point)
        subprocess.run([sys.executable, "job.py"], env=environment)   # dies at the point, if it reaches it
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
    """The environment for a process that SIGKILL ends the first time it reaches `point`.

    Args:
        point: a `CrashPoint`, or a connector's crash point.
        mark: a file that does not exist; it is created just before the kill, and prevents a second kill.
        pid: another process (or a negative process group) to kill first, such as the driver of a task; 0 for none.
    """
    return {**os.environ, VARIABLE: f"{point}:{pid}:{mark}"}
