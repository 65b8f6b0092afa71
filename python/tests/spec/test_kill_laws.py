"""SIGKILL: a producer process that dies anywhere, twice and again, leaves every transaction whole, once, or not at all."""

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
from oncelog.crash_points import VARIABLE, CrashPoint
from oncelog.runtime import Log
from oncelog.types import IsolationLevel
from tests import invariants
from tests.logs import tp, values

SOURCE, TARGET, GROUP = "source", "target", "copiers"
COUNT = 150

COPIER = f"""
import sys, oncelog
from oncelog import limits

limits.TAIL_MAX_ENTRIES = 8
limits.SETTLE_LAG_MS = 5
log = oncelog.open(sys.argv[1], create=False)
source = oncelog.TopicPartition("{SOURCE}", 0)
producer = log.producer(transactional_id="copier")
producer.init_transactions()
with log.consumer(group_id="{GROUP}", auto_offset_reset="earliest") as consumer:
    consumer.assign([source])
    while (number := consumer.position(source)) < {COUNT}:
        for is_given_up in ([True, False] if number % 7 == 0 else [False]):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("{TARGET}", b"given up" if is_given_up else b"%d" % number, partition=partition)
                producer.flush()
            producer.send_offsets_to_transaction({{source: number + 1}}, "{GROUP}")
            if is_given_up:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        print(number, flush=True)
        consumer.seek(source, number + 1)
"""

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
        log.create_topic(SOURCE)
        log.create_topic(TARGET, partitions=2)
        with log.producer() as producer:
            for _ in range(COUNT):
                producer.send(SOURCE, b"")
        yield log
        invariants.check(log)


@contextmanager
def copier(log: Log, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A copier in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", COPIER, log.path],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(oncelog.__file__).parents[1],
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(log: Log) -> None:
    """Let a copier do what is left."""
    with copier(log) as process:
        process.communicate(timeout=120)
        assert process.returncode == 0


def copied(log: Log) -> int:
    """How many numbers are copied; both partitions must agree, in every plan."""
    seen = [values(log, number, TARGET) for number in (0, 1)]
    assert seen[0] == seen[1] == [b"%d" % number for number in range(len(seen[0]))]
    return len(seen[0])


def assert_all_copied_once(log: Log) -> None:
    assert copied(log) == COUNT
    with log.consumer(group_id=GROUP) as consumer:
        assert consumer.committed([tp(0, SOURCE)])[tp(0, SOURCE)].offset == COUNT
    assert b"given up" in values(log, topic=TARGET, isolation=IsolationLevel.READ_UNCOMMITTED)


def test_a_producer_killed_twice_amid_its_transactions_copies_every_number_once(log: Log) -> None:
    """conformance: 14, 44, 64, 65."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    acknowledged = -1
    for _ in range(2):
        with copier(log) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(5, 30)):
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
        mark = tmp_path / point.value
        with copier(log, **{VARIABLE: f"{point.value}:0:{mark}"}) as process:
            process.communicate(timeout=120)
            assert process.returncode == -signal.SIGKILL, f"{point} was never reached"
        assert mark.exists()
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
                    for record in consumer.poll():
                        seen[record.partition].append(record.value)
                    assert seen[0] == seen[1]
                    if not is_last and int(line) > COUNT // 2:
                        process.send_signal(signal.SIGKILL)
        while polled := consumer.poll():
            for record in polled:
                seen[record.partition].append(record.value)

    assert_all_copied_once(log)
    assert seen[0] == values(log, 0, TARGET)
