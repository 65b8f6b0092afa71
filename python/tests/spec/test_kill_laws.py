"""SIGKILL: a producer process that dies anywhere, again and again, leaves each transaction whole and once, or not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import oncelog
from oncelog import crash_points
from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.types import IsolationLevel
from tests.support.log.copier import COUNT, GROUP, SOURCE, TARGET, copy
from tests.support.log.logs import values

pytestmark = pytest.mark.programs

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
        log.create_topic(SOURCE.topic)
        log.create_topic(TARGET, partitions=2)
        yield log
        invariants.check(log)


@contextmanager
def copier(log: Log) -> Iterator[subprocess.Popen[str]]:
    """A copier in a process of its own, which is gone at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.log.copier", log.path],
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
        copy(log.path)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def finish(log: Log) -> None:
    """Let a copier do what is left."""
    with copier(log) as process:
        process.communicate(timeout=120)
        assert process.returncode == 0


def copied(log: Log) -> int:
    """How many numbers are copied: both partitions agree, and none is missing, doubled or out of order."""
    seen = [values(log, number, TARGET) for number in (0, 1)]
    assert seen[0] == seen[1] == [b"%d" % number for number in range(len(seen[0]))]
    return len(seen[0])


def assert_all_copied_once(log: Log) -> None:
    assert copied(log) == COUNT
    with log.consumer(group_id=GROUP) as consumer:
        assert consumer.committed([SOURCE])[SOURCE].offset == COUNT
    assert b"given up" in values(log, topic=TARGET, isolation=IsolationLevel.READ_UNCOMMITTED)


def test_a_producer_killed_twice_amid_its_transactions_copies_every_number_once(log: Log) -> None:
    """conformance: 14, 44, 64, 65."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    acknowledged = -1
    for _ in range(2):
        with copier(log) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(5, 20)):
                acknowledged = int(process.stdout.readline())
            time.sleep(chance.random() * 0.01)
            process.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, process.stdout.read().splitlines())])
        assert acknowledged + 1 <= copied(log) <= acknowledged + 2, f"seed {seed}"

    finish(log)
    assert_all_copied_once(log)


def test_a_producer_killed_at_every_named_point_copies_every_number_once(log: Log, tmp_path: Path) -> None:
    """conformance: 14, 29, 44, 64."""
    for point in POINTS:
        assert killed_at(point, log, tmp_path / point) == signal.SIGKILL, f"{point} was never reached"
        copied(log)
    assert copied(log) < COUNT
    finish(log)

    assert_all_copied_once(log)


def test_readers_beside_a_producer_that_is_killed_agree_with_the_final_reader(log: Log) -> None:
    """conformance: 37, 64, 66."""
    seen: list[list[bytes | None]] = [[], []]
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TARGET])
        for is_last in (False, True):
            with copier(log) as process:
                assert process.stdout is not None
                while line := process.stdout.readline():
                    for record in consumer.poll(max_records=10**6):  # a plan is whole, a part of it need not be
                        seen[record.partition].append(record.value)
                    assert seen[0] == seen[1]
                    if not is_last and int(line) > COUNT // 2:
                        process.send_signal(signal.SIGKILL)
        while polled := consumer.poll():
            for record in polled:
                seen[record.partition].append(record.value)

    assert_all_copied_once(log)
    assert seen[0] == values(log, 0, TARGET)
