"""Becomes another program, which is killed with its whole process group when it first reaches a crash point.

Run it in a new session as ``python -m kafka_flights.doomed <crash point> <mark> <command> ...``. The crash point is an
environment variable, which all processes of the program inherit, including Spark's Python workers, in which the sink
takes its steps.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path

from oncelog.crash_points import CrashPoint
from oncelog.testing import faults
from oncelog_kafka.crash_points import KafkaCrashPoint


def main(moment: str, mark: str, *command: str) -> None:
    points: list[StrEnum] = [*CrashPoint, *KafkaCrashPoint]
    point = next(point for point in points if point == moment)
    os.execvpe(command[0], command, faults.killing_at(point, Path(mark), pid=-os.getpgrp()))


if __name__ == "__main__":
    main(*sys.argv[1:])
