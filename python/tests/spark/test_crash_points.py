"""A driver is killed with its JVM at named points that a query passes; the next one leaves exactly one copy.

Both doors of the sink are walked through side by side: two copiers of one topic, each with its own checkpoint, prefix
and consumer group, die at the same point. Then their successors recover, and are the next ones to die: so each point
costs one start of Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog import limits
from oncelog.crash_points import CrashPoint
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.log.logs import started, state, values
from tests.support.spark.faults import passed_on
from tests.support.spark.lives import walks
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import DOORS, PATIENCE_S, place
from tests.support.spark.writers import jars_of

PASSED = (
    CrashPoint.SOURCE_PLAN,
    CrashPoint.TASK_READ,
    CrashPoint.TASK_WRITE,
    CrashPoint.FILE_FINISH,
    CrashPoint.FILE_FINISHED,
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    CrashPoint.ROUND_APPEND,
    CrashPoint.ROUND_APPENDED,
    CrashPoint.ROUND_STAGED,
    CrashPoint.ROUND_DECIDE,
    CrashPoint.ROUND_DECIDED,
    CrashPoint.SINK_DONE,
    CrashPoint.SOURCE_COMMIT,
    CrashPoint.SETTLE,
    CrashPoint.SETTLED,
    CrashPoint.ROLL,
    CrashPoint.ROLLED,
)
"""Every point that a streaming query passes. Those of producers and of collection are elsewhere (tests/spec), and those
of the Kafka sink in its own tests."""

OF_TASKS = (CrashPoint.TASK_WRITE, CrashPoint.FILE_FINISH, CrashPoint.FILE_FINISHED)
"""Those that tasks pass when they write, also tasks in the JVM."""

ROWS_PER_TRANSACTION = 6
FILLER = b"filler"


class Copier:
    """A query that copies the topic `in` through one door, over many lives."""

    def __init__(self, log: Log, door: str, folder: Path) -> None:
        self._log = log
        self._folder = folder
        self._program: Program | None = None
        self._point: CrashPoint | None = None
        self._lives = 0
        self.spark: dict[str, str] = {}
        self.door = door
        self.topic = f"out-{door}"

    @property
    def program(self) -> Program:
        assert self._program is not None
        return self._program

    @property
    def _mark(self) -> Path:
        return self._folder / f"{self.door}-{self._lives}.mark"

    def live(self, point: CrashPoint | None) -> None:
        """Be alive, and ready to die at `point`."""
        if self._program is not None and self._point is point and self._program.is_running:
            return
        self.end()
        self._lives += 1
        self._point = point
        self._mark.touch()
        group = f"group-{self.door}"
        query = {
            "door": self.door,
            "checkpoint": str(self._folder / f"checkpoint-{self.door}"),
            "source": {"startingOffsets": "latest", "groupId": group},
            "sink": {"topic": self.topic, "groupId": group, "transactionalIdPrefix": f"copier-{self.door}"},
        }
        fault = {"crash_point": point, "mark": str(self._mark)}
        settings = {"log": place(self._log), "spark": self.spark, "queries": [query], **fault}
        self._program = start_job("copier", settings, self._folder, f"{self.door}-{self._lives}")

    def die(self) -> None:
        """Be killed at the point, at the next chance."""
        self.program.check_runs()
        self._mark.unlink()

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None

    def copied(self, number: int) -> list[bytes | None]:
        return [value for value in values(self._log, number, self.topic) if value != FILLER]

    def is_recovered(self) -> bool:
        self.program.check_runs()
        return all(self.copied(number) == values(self._log, number, "in") for number in (0, 1))


class World:
    """The log, and the copiers of its topic `in`."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log = log
        self.copiers = [Copier(log, door, folder) for door in DOORS]
        self._written = 0
        for topic in ("in", *(copier.topic for copier in self.copiers)):
            log.create_topic(topic, partitions=2)

    def write(self) -> None:
        """One more transaction over both partitions."""
        with started(self.log, "writer") as producer, producer.transaction():
            for at in range(ROWS_PER_TRANSACTION):
                producer.send("in", b"%d/%d" % (self._written, at), key=b"key", partition=at % 2)
        self._written += 1

    def live(self, point: CrashPoint | None) -> None:
        for copier in self.copiers:
            copier.live(point)

    def recover(self) -> None:
        """Wait until all that was written is copied, exactly and in order, and no round is left open."""
        for copier in self.copiers:
            until(copier.is_recovered, within_s=PATIENCE_S)
        until(lambda: self.log.admin.find_hanging(max_age_ms=0) == [], within_s=PATIENCE_S)

    def kill(self) -> None:
        """Have the copiers killed while the topic grows."""
        for copier in self.copiers:
            copier.die()
        until(self._are_dead_or_get_more, within_s=PATIENCE_S)
        for copier in self.copiers:
            copier.program.wait_killed()

    def _are_dead_or_get_more(self) -> bool:
        if not any(copier.program.is_running for copier in self.copiers):
            return True
        self.write()
        time.sleep(0.3)
        return False

    def check_no_half_batch(self) -> None:
        """What shows of a copy are the first transactions, whole ones, although a batch may have died half written."""
        for copier in self.copiers:
            copied = [copier.copied(number) for number in (0, 1)]
            assert len(copied[0]) == len(copied[1])
            assert len(copied[0]) % (ROWS_PER_TRANSACTION // 2) == 0
            assert copied == [values(self.log, number, "in")[: len(copied[0])] for number in (0, 1)]

    def fill_tails(self) -> None:
        """Leave room for one entry in each tail of the index: with the next batch it is rolled."""
        with self.log.producer() as producer:
            for copier in self.copiers:
                for number in (0, 1):
                    while state(self.log, number, copier.topic).tail_nodes < limits.TAIL_MAX_ENTRIES - 1:
                        producer.send(copier.topic, FILLER, partition=number)
                        producer.flush()


@pytest.fixture
def world(tmp_path: Path, znodes: str | None) -> Iterator[World]:
    require_java()
    with oncelog.open(tmp_path / "log", znodes) as log:
        found = World(log, tmp_path)
        try:
            yield found
        finally:
            for copier in found.copiers:
                copier.end()
        log.admin.settle()
        invariants.check(log)


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"(`make crash`) | {len(PASSED)} points of both sinks" in guarantees()


@pytest.mark.walk("a killed driver leaves one copy")
@pytest.mark.parametrize(
    "points",
    [
        *walks(PASSED),
        pytest.param((CrashPoint.ROUND_DECIDE, CrashPoint.SINK_DONE), id="short", marks=pytest.mark.every_spark),
    ],
)
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(
    world: World, points: tuple[CrashPoint, ...]
) -> None:
    """conformance: 44, 52, 53, 57."""
    walk(world, tuple(dict.fromkeys(passed_on(world.log, point) for point in points)))

    for copier in world.copiers:
        group = world.log.admin.describe_group(f"group-{copier.door}")
        assert {found.partition for found in group.partitions} == {0, 1}
        assert group.owning_prefix == f"copier-{copier.door}"


@pytest.mark.walk("a killed driver leaves one copy")
def test_a_driver_that_is_killed_while_its_jvm_writes_leaves_exactly_one_copy(world: World) -> None:
    """With oncelog's jar tasks write in the JVM. conformance: 44, 52, 53, 57."""
    for copier in world.copiers:
        copier.spark = jars_of("jvm")

    walk(world, OF_TASKS)


def walk(world: World, points: tuple[CrashPoint, ...]) -> None:
    """Have the copiers die at one point after the other, and recover each time."""
    die_in_the_first_batch(world, points[0])
    for point, following in zip(points, (*points[1:], None), strict=True):
        try:
            die_at(world, point)
            world.live(following)
            world.recover()
        except BaseException as error:
            error.add_note(f"after a kill at {point}")
            raise


def die_in_the_first_batch(world: World, following: CrashPoint) -> None:
    """The queries start at the latest offset: what is written while they are dead would be behind it."""
    world.live(CrashPoint.SINK_PLANNED)
    for copier in world.copiers:
        copier.die()
    for copier in world.copiers:
        copier.program.wait_killed()
    world.write()
    world.live(following)
    world.recover()


def die_at(world: World, point: CrashPoint) -> None:
    if point in {CrashPoint.ROLL, CrashPoint.ROLLED}:
        world.fill_tails()
    world.kill()
    world.check_no_half_batch()


def test_every_crash_point_of_a_query_is_walked_through() -> None:
    elsewhere = {point for point in CrashPoint if point.startswith(("producer.", "collect", "checkpoint."))}

    assert set(CrashPoint) == elsewhere | set(PASSED)
