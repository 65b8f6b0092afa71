"""Two drivers of one query: the older one may wake up whenever it likes, the log holds one copy."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from tests.support.harness.waiting import until
from tests.support.log.logs import numbered, records, started, values, write_committed
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import DOORS, PATIENCE_S, copy, into, place, stream

pytestmark = pytest.mark.walk("of two drivers one ends")


class Copies:
    """Two copies of the topic `in`, one through each door."""

    def __init__(self, spark: SparkSession, log: Log, folder: Path) -> None:
        self._spark = spark
        self._log = log
        self._folder = folder
        self.checkpoints = {door: folder / f"checkpoint-{door}" for door in DOORS}
        self.sources = {door: {"groupId": f"group-{door}"} for door in DOORS}
        self.sinks = {
            door: {"topic": f"out-{door}", "transactionalIdPrefix": f"copier-{door}", **self.sources[door]}
            for door in DOORS
        }
        for door in DOORS:
            log.create_topic(f"out-{door}", partitions=2)

    def run(self) -> None:
        """Copy what there is to copy."""
        for door in DOORS:
            rows = stream(self._spark, self._log, **self.sources[door]).select("value", "partition")
            copy(rows, self._log, door, self.checkpoints[door], **self.sinks[door])

    def found(self) -> list[list[bytes | None]]:
        return [values(self._log, topic=f"out-{door}") for door in DOORS]

    def wholes(self) -> list[object]:
        """Everything that readers get, offsets included."""
        return [records(self._log, f"out-{door}") for door in DOORS]

    @contextmanager
    def asleep(self, point: CrashPoint) -> Iterator[Zombies]:
        """Drivers that were stopped at `point`, each in the middle of its next batch."""
        settings = {
            "log": place(self._log),
            "folder": str(self._folder),
            "point": point,
            "checkpoints": {door: str(path) for door, path in self.checkpoints.items()},
            "sources": self.sources,
            "sinks": self.sinks,
        }
        with start_job("zombies", settings, self._folder, "zombies") as program:
            zombies = Zombies(program, self._folder)
            until(zombies.are_asleep, within_s=PATIENCE_S)
            yield zombies


class Zombies:
    def __init__(self, program: Program, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def _pids(self) -> list[int]:
        texts = [(self._folder / f"{door}.mark") for door in DOORS]
        return [int(path.read_text() or 0) for path in texts if path.exists()]

    def are_asleep(self) -> bool:
        self._program.check_runs()
        pids = self._pids()
        return len(pids) == len(DOORS) and all(_is_stopped(pid) for pid in pids)

    def wake_up(self) -> dict[str, str]:
        """Let them run to their end; returns what each ended with."""
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)
        assert self._program.wait() == 0
        found: dict[str, str] = json.loads((self._folder / "outcome").read_text())
        return found


def _is_stopped(pid: int) -> bool:
    return pid > 0 and Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "T"


def write(log: Log, *sent: bytes, number: int = 0) -> None:
    """Commit values to the topic that is copied, in one transaction."""
    with started(log, "writer") as producer:
        write_committed(producer, *sent, number=number, topic="in")


@pytest.mark.parametrize("point", [CrashPoint.SINK_PLANNED, CrashPoint.ROUND_DECIDE, CrashPoint.ROUND_DECIDED])
def test_a_driver_that_wakes_up_after_its_successor_wrote_changes_nothing(
    spark: SparkSession, log: Log, tmp_path: Path, point: CrashPoint
) -> None:
    """conformance: 54, 62."""
    copies = Copies(spark, log, tmp_path)
    write(log, b"first")
    copies.run()
    write(log, *numbered("a", 5), number=1)

    with copies.asleep(point) as zombies:
        copies.run()
        write(log, b"second")
        copies.run()
        before = copies.wholes()
        outcome = zombies.wake_up()

    assert copies.found() == [[b"first", b"second", *numbered("a", 5)]] * 2
    assert copies.wholes() == before
    assert log.admin.find_hanging(max_age_ms=0) == []
    fenced = "RunSupersededError" if point is not CrashPoint.ROUND_DECIDED else ""
    assert {door: fenced in text for door, text in outcome.items()} == dict.fromkeys(DOORS, True)
    write(log, b"third")
    copies.run()
    assert copies.found() == [[b"first", b"second", b"third", *numbered("a", 5)]] * 2


def test_of_two_drivers_that_run_side_by_side_one_ends_and_there_is_one_copy(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Spark itself may notice the other driver first: both log the offsets of a batch. conformance: 62."""
    sink = {"transactionalIdPrefix": "copier"}
    query = {"door": "foreachBatch", "checkpoint": str(tmp_path / "ck"), "sink": sink}
    write(log, b"0")
    with start_job("copier", {"log": place(log), "queries": [query]}, tmp_path, "older") as older:
        until(lambda: values(log, topic="out") == [b"0"], within_s=PATIENCE_S)
        writer = into(stream(spark, log), log, "foreachBatch", transactionalIdPrefix="copier")
        newer = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
        count = 1

        def is_over() -> bool:
            return not (older.is_running and newer.isActive)

        while not is_over():
            write(log, b"%d" % count)
            count += 1
            until(lambda: is_over() or len(values(log, topic="out")) == count)  # noqa: B023 - waited for at once
    newer.stop()

    copy(stream(spark, log), log, "foreachBatch", tmp_path / "ck", transactionalIdPrefix="copier")

    assert values(log, topic="out") == [b"%d" % at for at in range(count)]
