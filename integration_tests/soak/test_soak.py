"""The soak's own parts: what they say of a copy is what happened."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from integration_tests.soak import checkpoints
from integration_tests.soak.checkpoints import SourceLog
from integration_tests.soak.disks import FLAG, SITE, Disk
from integration_tests.soak.lap import laps
from integration_tests.soak.programs import Program, send
from integration_tests.soak.records import GIVEN_UP, first_number, given_up, placed_runs, to_numbers, to_values
from oncelog.testing.checker import Anomaly, judge
from oncelog.testing.history import NUMBERS, Event, Piece, Poll, Polled, Recorder
from tests.support.harness.waiting import until


def test_numbers_come_back_from_records() -> None:
    numbers = np.array([0, 1, first_number(9, 3), GIVEN_UP | 7])

    assert to_numbers(to_values(numbers)["value"]).tolist() == numbers.tolist()


def test_no_two_lives_or_partitions_send_the_same_number() -> None:
    firsts = [first_number(life, partition) for life in range(1, 50) for partition in range(4)]

    assert len(set(firsts)) == len(firsts)
    assert min(np.diff(sorted(firsts))) >= 1 << 28
    assert int(given_up(np.array([max(firsts)]))[0]) < NUMBERS


def test_a_run_ends_where_offsets_or_numbers_do_not_follow() -> None:
    runs = placed_runs(np.array([0, 1, 3, 4, 5]), np.array([10, 11, 12, 13, 20]))

    assert runs == [(0, 10, 2), (3, 12, 2), (5, 20, 1)]


def test_a_micro_batch_is_what_the_source_holds_between_its_ends(tmp_path: Path) -> None:
    """conformance: 66."""
    for number, ends in enumerate([{"0": 4}, {"0": 12}]):
        for folder, text in (("offsets", f"v1\n{{}}\n{json.dumps({'in': ends})}"), ("commits", "v1\n{}")):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / str(number)).write_text(text)
    (tmp_path / "commits" / "1").unlink()

    events: list[Event] = []
    _read(events, "in", [(0, 100, 5), (6, 200, 5)], end=12)
    source = SourceLog(events)
    assert source.ends() == {0: 11, 1: 0, 2: 0, 3: 0}
    assert not checkpoints.is_done(tmp_path, source.ends())
    assert checkpoints.write_history("batch", tmp_path, source, events.append) == 2

    whole, torn = list(events), list(events)
    _read(whole, "batch", [(0, 100, 5), (6, 200, 5)], end=12)
    _read(torn, "batch", [(0, 100, 4), (6, 200, 5)], end=12)
    assert Anomaly.FOREIGN_READ in judge(whole).anomalies  # of the source, whose writers have no history here
    assert Anomaly.HALF_BATCH not in judge(whole).anomalies
    assert Anomaly.HALF_BATCH in judge(torn).anomalies


def test_a_full_disk_takes_nothing_until_it_is_freed(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    try:
        if disk.environment:
            pytest.skip("nothing can be mounted here: errors are injected instead")
        disk.fill()
        with pytest.raises(OSError, match="No space") as caught:
            (disk.folder / "file").write_bytes(bytes(1 << 16))
        assert caught.value.errno == errno.ENOSPC
        disk.free()
        (disk.folder / "file").write_bytes(bytes(1 << 16))
    finally:
        disk.close()


def test_where_nothing_can_be_mounted_the_error_of_a_full_disk_is_injected(tmp_path: Path) -> None:
    flag = tmp_path / "full"
    script = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))"
    environment = {**os.environ, FLAG: str(flag), "PYTHONPATH": str(SITE)}

    def sync() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, str(tmp_path)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert sync().returncode == 0
    flag.touch()
    assert "No space left" in sync().stderr


def test_a_program_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    def have_a_child() -> None:
        os.fork()
        time.sleep(60)

    program = Program.fork(have_a_child, tmp_path / "out")
    until(lambda: len(program.members()) == 2)
    send(program.members()[-1], signal.SIGSTOP)
    program.kill()

    assert program.status == -signal.SIGKILL
    assert program.members() == []


def test_every_stack_gets_its_share_and_no_lap_is_too_long() -> None:
    assert list(laps(3, ["a", "b"])) == [("a", 90.0), ("b", 90.0)]
    shares = list(laps(60, ["a", "b", "c"]))
    assert sum(seconds for _, seconds in shares) == pytest.approx(3600)
    assert max(seconds for _, seconds in shares) <= 300


def _read(events: list[Event], topic: str, runs: list[tuple[int, int, int]], *, end: int) -> None:
    recorder = Recorder(f"reader-{len(events)}", events.append)
    made = recorder.invoke(Poll(recorder.process, is_final=True))
    recorder.ok(made, Polled([Piece(topic, 0, 0, end, runs)]))
