"""Spark on more than one process and host works on one log whose znodes are in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from oncelog.runtime import Log
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.log import copier
from tests.support.log.copier import Plan
from tests.support.log.logs import numbered, started, values, write_aborted, write_committed
from tests.support.servers.zookeeper import ZookeeperServer
from tests.support.spark.faults import check_stage_ran_again
from tests.support.spark.processes import Program, start_job, start_program
from tests.support.spark.queries import DOORS, PATIENCE_S, last_batch, place
from tests.support.spark.releases import since_4_2
from tests.support.spark.reruns import CANNOT_TAKE_BACK
from tests.support.spark.standalone import LOCAL_CLUSTER, awaited_executors, executors, standalone_cluster
from tests.support.spark.writers import WRITERS, jars_of

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")

SIZE = 100
"""Records of a partition that come before the executors are killed, and as many again after it."""

PLAIN = "plain"
"""The topic to which the plain program alone copies."""


@pytest.fixture
def znodes(zookeeper: ZookeeperServer) -> str:
    return zookeeper.url()


@pytest.fixture(params=[LOCAL_CLUSTER, "standalone"])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Two executors with one core each, in processes of their own."""
    require_java()
    if request.param == LOCAL_CLUSTER:
        yield LOCAL_CLUSTER
    else:
        with standalone_cluster(tmp_path) as url:
            yield url


def sent(name: str, number: int) -> list[bytes]:
    return numbered(f"{name}-{number}", SIZE)


def write(log: Log, name: str) -> None:
    """Records for both partitions, in transactions of ten, and as many beside them that are aborted."""
    with started(log, "writer") as producer:
        for at in range(0, SIZE, 10):
            for number in (0, 1):
                write_committed(producer, *sent(name, number)[at : at + 10], number=number, topic="in")
                write_aborted(producer, b"given up", number=number, topic="in")


class Copies:
    """What is in the topics: copies of Spark's sinks in two of them, those of a plain program in all three."""

    def __init__(self, log: Log) -> None:
        self.topics = [*DOORS, PLAIN]
        self._log = log
        for topic in self.topics:
            log.create_topic(topic, partitions=2)

    def are_complete(self) -> bool:
        """Whether there are as many as there should be; that they are the right ones is for `check`."""
        return all(len(values(self._log, topic=topic)) >= self._count(topic) for topic in self.topics)

    def check(self) -> None:
        for topic in self.topics:
            for number in (0, 1):
                everything = [*sent("before", number), *sent("after", number)]
                found = [value or b"" for value in values(self._log, number, topic)]
                of_spark = [value for value in found if b"/" not in value]
                assert of_spark == (everything if topic in DOORS else [])
                assert [value for value in found if b"/" in value] == [b"plain/" + value for value in everything]

    def _count(self, topic: str) -> int:
        return 2 * 2 * SIZE * (2 if topic in DOORS else 1)


@pytest.mark.parametrize("writer", WRITERS)
def test_copies_are_exact_though_executors_die_and_others_write_beside_them(
    log: Log, master: str, tmp_path: Path, writer: str
) -> None:
    stop = tmp_path / "stop"
    copies = Copies(log)
    plan = Plan(source="in", targets=copies.topics, at_once=7, name=PLAIN, mark=f"{PLAIN}/")
    settings = {"log": place(log), "stop": str(stop)}
    queries = []
    for door in DOORS:
        folder = tmp_path / door
        folder.mkdir()
        query = {"door": door, "sink": {"topic": door, "transactionalIdPrefix": f"to.{door}"}}
        queries.append({**query, "fault": "killed", "folder": str(folder), "checkpoint": str(folder / "checkpoint")})
    on_cluster = {"master": master, "spark": executors() | jars_of(writer), "queries": queries}

    with (
        start_program(copier.__name__, {**settings, "plan": asdict(plan)}, tmp_path, "plain") as plain,
        start_job("copier", {**settings, **on_cluster}, tmp_path, "driver") as driver,
    ):

        def wait(is_reached: Callable[[], bool]) -> None:
            def is_reached_alive() -> bool:
                plain.check_runs()
                driver.check_runs()
                return is_reached()

            until(is_reached_alive, within_s=PATIENCE_S)

        write(log, "before")
        wait(lambda: all((tmp_path / door / "killed").exists() for door in DOORS))
        write(log, "after")
        wait(copies.are_complete)
        stop.touch()
        assert driver.wait() == 0, driver.last_lines()
        assert plain.wait() == 0, plain.last_lines()

    copies.check()
    for door in DOORS:
        assert last_batch(tmp_path / door / "checkpoint") > 1


def start_rerun(log: Log, folder: Path, name: str, writer: str, *doors: str, drawn: bool = False) -> Program:
    """Start queries, one after the other, of which a part of the sink's stage runs again; each has a topic."""
    queries = []
    for door in doors:
        own = folder / door
        own.mkdir(exist_ok=True)
        query = {"door": door, "sink": {"topic": door}, "trigger": {"availableNow": True}, "tasks": 4, "drawn": drawn}
        queries.append({**query, "fault": "killed late", "folder": str(own), "checkpoint": str(own / "checkpoint")})
    on_cluster = {"master": LOCAL_CLUSTER, "spark": awaited_executors() | jars_of(writer), "in_turn": True}
    return start_job("copier", {"log": place(log), "queries": queries, **on_cluster}, folder, name)


def check_one_copy(log: Log, topic: str) -> None:
    for number in (0, 1):
        assert sorted(filter(None, values(log, number, topic))) == sorted(sent("before", number))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_stage_that_runs_again_after_some_of_its_tasks_succeeded_leaves_one_copy(
    log: Log, tmp_path: Path, writer: str
) -> None:
    """Spark keeps the receipts of those tasks, and runs the others in another attempt of the stage."""
    require_java()
    write(log, "before")
    for door in DOORS:
        log.create_topic(door, partitions=2)

    with start_rerun(log, tmp_path, "driver", writer, *DOORS) as driver:
        assert driver.wait() == 0, driver.last_lines()

    for door in DOORS:
        check_stage_ran_again(tmp_path / door)
        check_one_copy(log, door)


@since_4_2
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("writer", WRITERS)
def test_map_tasks_that_give_other_rows_when_they_run_again_fail_the_query_and_a_restart_leaves_one_copy(
    log: Log, tmp_path: Path, writer: str, door: str
) -> None:
    require_java()
    write(log, "before")
    log.create_topic(door, partitions=2)

    with start_rerun(log, tmp_path, "driver", writer, door, drawn=True) as driver:
        assert driver.wait() != 0, driver.last_lines()
        assert CANNOT_TAKE_BACK in driver.output.read_text(errors="replace"), driver.last_lines()
    assert values(log, topic=door) == []

    with start_rerun(log, tmp_path, "restarted", writer, door, drawn=True) as driver:
        assert driver.wait() == 0, driver.last_lines()
    check_one_copy(log, door)
