"""SIGKILL: a producer process that dies anywhere, again and again, leaves each transaction whole and once, or not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog import crash_points
from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.log import copier
from tests.support.log.copier import Plan, copied
from tests.support.log.logs import uncommitted, values

pytestmark = pytest.mark.slow

PLAN = Plan(aborts_every=7)
(TARGET,) = PLAN.targets
COUNT = 60
LIMITS = {"TAIL_MAX_ENTRIES": 8, "SETTLE_LAG_MS": 5}
"""So that the copier rolls the index and settles on its way."""

POINTS = [
    CrashPoint.PRODUCER_INIT,
    CrashPoint.FILE_FINISH,
    CrashPoint.FILE_FINISHED,
    CrashPoint.PRODUCER_APPEND,
    CrashPoint.PRODUCER_APPENDED,
    CrashPoint.PRODUCER_END,
    CrashPoint.PRODUCER_ENDED,
    CrashPoint.SETTLE,
    CrashPoint.SETTLED,
    CrashPoint.ROLL,
    CrashPoint.ROLLED,
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with oncelog.open(tmp_path / "log") as log:
        copier.prepare(log, PLAN, COUNT)
        yield log
        invariants.check(log)


def settings(log: Log) -> dict[str, Any]:
    return {"log": {"path": log.path}, "plan": asdict(PLAN), "limits": LIMITS}


@contextmanager
def copying(log: Log) -> Iterator[subprocess.Popen[str]]:
    """A copier in a process of its own, which is gone at the end of the block; it prints a line for each number."""
    file = Path(log.path).with_name("settings.json")
    file.write_text(json.dumps(settings(log)))
    process = subprocess.Popen(
        [sys.executable, "-m", copier.__name__, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(oncelog.__file__).parents[1],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def killed_at(point: CrashPoint, log: Log, mark: Path) -> int:
    """Run a copier in a forked process until it reaches `point`; returns the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - the process ends with it
        crash_points.arm(crash_points.kill_once_at(point, 0, mark))
        copier.main(settings(log))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def finish(log: Log) -> None:
    """Let a copier do what is left."""
    with copying(log) as process:
        process.communicate(timeout=120)
        assert process.returncode == 0


def assert_all_copied_once(log: Log) -> None:
    copier.assert_copied_once(log, PLAN, COUNT)
    assert len(uncommitted(log, topic=TARGET)) > 2 * COUNT, "some are written again after an abort"


def test_a_producer_killed_twice_amid_its_transactions_copies_every_number_once(log: Log) -> None:
    """conformance: 14, 44, 64, 65."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(2):
        acknowledged = copied(log, PLAN)
        with copying(log) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(5, 20)):
                process.stdout.readline()
                acknowledged += 1
            time.sleep(chance.random() * 0.01)
            process.send_signal(signal.SIGKILL)
            acknowledged += len(process.stdout.read().splitlines())
        assert acknowledged <= copied(log, PLAN) <= acknowledged + 1, f"seed {seed}"

    finish(log)
    assert_all_copied_once(log)


def test_a_producer_killed_at_every_named_point_copies_every_number_once(log: Log, tmp_path: Path) -> None:
    """conformance: 14, 29, 44, 64."""
    for point in POINTS:
        assert killed_at(point, log, tmp_path / point) == signal.SIGKILL, f"{point} was never reached"
        copied(log, PLAN)
    assert copied(log, PLAN) < COUNT
    finish(log)

    assert_all_copied_once(log)


def test_readers_beside_a_producer_that_is_killed_agree_with_the_final_reader(log: Log) -> None:
    """conformance: 37, 64, 66."""
    seen: list[list[bytes | None]] = [[], []]
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TARGET])
        for kills_at in (COUNT // 2, None):
            with copying(log) as process:
                assert process.stdout is not None
                for count, _ in enumerate(process.stdout, start=1):
                    for record in consumer.poll(max_records=10**6):  # a plan is whole, a part of it need not be
                        seen[record.partition].append(record.value)
                    assert seen[0] == seen[1]
                    if count == kills_at:
                        process.send_signal(signal.SIGKILL)
        while polled := consumer.poll():
            for record in polled:
                seen[record.partition].append(record.value)

    assert_all_copied_once(log)
    assert seen[0] == values(log, 0, TARGET)
