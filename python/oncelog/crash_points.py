"""Named points in the code at which a test may kill the process, between the steps that must be crash-safe.

`reach` only reads a variable unless a fault is armed: by `arm`, or by the environment variable ``ONCELOG_CRASH_AT``,
which child processes inherit. Only tests and the demonstration job arm faults; `oncelog.testing.faults` has the tools.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

VARIABLE = "ONCELOG_CRASH_AT"
"""``<point>:<pid or 0>:<file>``, the arguments of `kill_once_at`."""


class CrashPoint(StrEnum):
    """Every crash point, in the order in which a batch or a transaction reaches them. Connectors have more."""

    SOURCE_PLAN = "source.plan"
    TASK_READ = "task.read"
    TASK_WRITE = "task.write"
    FILE_FINISH = "file.finish"
    FILE_FINISHED = "file.finished"
    SINK_PLAN = "sink.plan"
    SINK_PLANNED = "sink.planned"
    ROUND_APPEND = "round.append"
    ROUND_APPENDED = "round.appended"
    ROUND_STAGED = "round.staged"
    ROUND_DECIDE = "round.decide"
    ROUND_DECIDED = "round.decided"
    SINK_DONE = "sink.done"
    SOURCE_COMMIT = "source.commit"
    CHECKPOINT_COPIED = "checkpoint.copied"
    PRODUCER_INIT = "producer.init"
    PRODUCER_APPEND = "producer.append"
    PRODUCER_APPENDED = "producer.appended"
    PRODUCER_END = "producer.end"
    PRODUCER_ENDED = "producer.ended"
    SETTLE = "settle"
    SETTLED = "settled"
    ROLL = "roll"
    ROLLED = "rolled"
    COLLECT = "collect"
    COLLECTED = "collected"


class StoppedHereError(Exception):
    """Raised by an armed action in place of the process's death. Code that reports errors must let it pass."""


_armed: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Called by the code at `point`."""
    if _armed is not None:
        _armed(point)


def arm(action: Callable[[str], None] | None) -> None:
    """Call `action` at every crash point from now on; None disarms."""
    global _armed  # noqa: PLW0603 - one per process, like a signal handler
    _armed = action


def kill_once_at(point: str, pid: int, mark: Path) -> Callable[[str], None]:
    """An action that kills this process with SIGKILL at `point`, unless the file `mark` exists.

    Args:
        point: the name of the crash point.
        pid: a process to kill before this one, such as the driver of a worker; 0 for none. A negative number is a
            process group, as in `os.kill` (the driver with its JVM).
        mark: created just before the kill.
    """

    def action(reached: str) -> None:
        if reached != point:
            return
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        if pid:
            os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return action


def _arm_from_environment() -> None:
    setting = os.environ.get(VARIABLE)
    if setting:
        point, pid, mark = setting.split(":", 2)
        arm(kill_once_at(point, int(pid), Path(mark)))


_arm_from_environment()
