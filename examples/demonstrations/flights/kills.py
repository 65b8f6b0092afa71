"""When the process of the query is killed: seven moments in the life of a micro-batch, in their order.

A process that is to die at a moment kills itself there with SIGKILL, once: it makes a file, its *mark*, just before,
and passes the moment unharmed while that file exists. So whoever starts the process makes the mark first, lets the
query recover and work for a while, and removes the mark to have it die at the next chance.

Both pipelines die seven times, at moments that match. Two of them differ by nature:
  - oncelog decides a batch with one write, so it can die before that write or after it. Spark publishes parquet files
    with one rename each, so it can also die between two of them, and that is its moment of decision.
  - Parquet has nothing to settle. It dies once more where it would: after the write, before the checkpoint.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from oncelog.crash_points import VARIABLE, CrashPoint, arm, kill_once_at


class ParquetMoment(StrEnum):
    """Where the parquet twin can be killed, besides the crash points of the source that both share."""

    WRITING = "writing"
    HANDED_OVER = "handed over"
    PUBLISHING = "publishing"
    WRITTEN = "written"


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL.

    Attributes:
        moment: its name.
        oncelog, parquet: where each pipeline dies.
        in_oncelog, in_parquet: what has happened there, for people.
    """

    moment: str
    oncelog: CrashPoint
    parquet: CrashPoint | ParquetMoment
    in_oncelog: str
    in_parquet: str


KILLS = (
    Kill(
        "read",
        CrashPoint.TASK_READ,
        CrashPoint.TASK_READ,
        "a task is about to read its first records",
        "the same: both pipelines read the same source",
    ),
    Kill(
        "file writing",
        CrashPoint.FILE_FINISH,
        ParquetMoment.WRITING,
        "a task has written its file, which is not durable yet",
        "a task is writing its file",
    ),
    Kill(
        "append",
        CrashPoint.ROUND_APPENDED,
        ParquetMoment.HANDED_OVER,
        "the log lists the rows, as undecided",
        "a task has handed its file over to the job",
    ),
    Kill(
        "decision, before",
        CrashPoint.ROUND_DECIDE,
        ParquetMoment.PUBLISHING,
        "the next write decides the batch",
        "the job has published the first of its files",
    ),
    Kill(
        "decision, after",
        CrashPoint.ROUND_DECIDED,
        ParquetMoment.WRITTEN,
        "the batch is decided, and nobody knows it yet",
        "the write has returned",
    ),
    Kill(
        "settle",
        CrashPoint.SETTLE,
        ParquetMoment.WRITTEN,
        "the control markers are about to be written",
        "the write has returned: there is nothing to settle",
    ),
    Kill(
        "checkpoint commit",
        CrashPoint.SINK_DONE,
        ParquetMoment.WRITTEN,
        "the sink has returned, and Spark has not written its commits file",
        "the write has returned, and Spark has not written its commits file",
    ),
)


def named(moment: str) -> Kill:
    """The kill at a moment."""
    return next(kill for kill in KILLS if kill.moment == moment)


def arm_crash_point(point: CrashPoint, mark: Path) -> None:
    """Have this process killed at a crash point, whichever process of its reaches it: itself, or a task of Spark."""
    driver = os.getpid()
    os.environ[VARIABLE] = f"{point}:{driver}:{mark}"
    arm(kill_once_at(point, driver, mark))


def die_once(mark: Path) -> None:
    """Kill this process with SIGKILL, unless the mark exists."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
