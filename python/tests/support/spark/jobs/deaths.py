"""Programs that are killed at a crash point, once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from pathlib import Path

from oncelog.crash_points import CrashPoint, arm, kill_once_at
from oncelog.testing import faults


def die_at(name: str, mark: Path, points_of_connector: Iterable[StrEnum] = ()) -> None:
    """Have this driver killed with its JVM when one of its processes comes to a point: itself or a Python worker."""
    point = next(one for one in chain(CrashPoint, points_of_connector) if one == name)
    group = -os.getpgrp()
    os.environ.update(faults.killing_at(point, mark, pid=group))
    arm(kill_once_at(point, group, mark))
