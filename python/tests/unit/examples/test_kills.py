"""The kills cover the life of a micro-batch, and hit a process once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flights import cluster_experiment, kills
from flights.cluster import HOSTS
from flights.cluster_experiment import Part
from flights.kills import KILLS
from oncelog.crash_points import CrashPoint

pytestmark = pytest.mark.slow

DYING = """
import sys
from pathlib import Path
from flights import cluster_experiment, kills
from flights.cluster import HOSTS
from flights.cluster_experiment import Part
kills.die_once(Path(sys.argv[1]))
print("alive")
"""
PASSING_A_POINT = """
import sys
from pathlib import Path
from flights import cluster_experiment, kills
from flights.cluster import HOSTS
from flights.cluster_experiment import Part
from oncelog.crash_points import CrashPoint, reach
kills.arm_crash_point(CrashPoint.ROUND_DECIDE, Path(sys.argv[1]))
reach(CrashPoint.ROUND_APPEND)
reach(CrashPoint.ROUND_DECIDE)
print("alive")
"""


def run(source: str, mark: Path) -> subprocess.CompletedProcess[str]:
    paths = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", source, str(mark)], env=paths, capture_output=True, text=True, check=False
    )


def test_a_process_dies_at_its_moment_once_and_the_mark_says_so(tmp_path: Path) -> None:
    for source in (DYING, PASSING_A_POINT):
        mark = tmp_path / str(len(source))

        first, second = run(source, mark), run(source, mark)

        assert first.returncode == -signal.SIGKILL
        assert mark.exists()
        assert second.stdout == "alive\n"


def test_a_process_passes_its_moment_while_the_mark_exists(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()

    assert run(DYING, mark).stdout == run(PASSING_A_POINT, mark).stdout == "alive\n"


def test_oncelog_is_killed_at_every_stage_of_a_batch_in_their_order() -> None:
    assert [kill.oncelog for kill in KILLS] == [
        CrashPoint.TASK_READ,
        CrashPoint.FILE_FINISH,
        CrashPoint.ROUND_APPENDED,
        CrashPoint.ROUND_DECIDE,
        CrashPoint.ROUND_DECIDED,
        CrashPoint.SETTLE,
        CrashPoint.SINK_DONE,
    ]


def test_every_moment_of_the_parquet_twin_is_used() -> None:
    assert {kill.parquet for kill in KILLS} == {CrashPoint.TASK_READ, *kills.ParquetMoment}


def test_on_a_cluster_each_part_dies_twice_and_each_host_loses_both() -> None:
    parts = [kill.part for kill in cluster_experiment.KILLS]
    lost = {(kill.part, kill.host) for kill in cluster_experiment.KILLS}

    assert sorted(parts) == sorted([*Part, *Part])
    assert {host for part, host in lost if part is Part.WORKER} == set(HOSTS)
    assert {host for part, host in lost if part is Part.EXECUTOR} == set(HOSTS)
