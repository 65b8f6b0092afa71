"""Spark on more than one process and host works on one log whose znodes are in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oncelog.runtime import Log
from tests.logs import numbered, started, values, write_aborted, write_committed
from tests.parts import require_java
from tests.spark.jobs.neighbours import PARTITIONS
from tests.spark.processes import start_job
from tests.spark.queries import DOORS, last_batch, place, until
from tests.spark.standalone import EXECUTORS, standalone_cluster
from tests.zookeeper import ZookeeperServer

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
PLAIN = "plain"
SIZE = 100
"""Records of a partition that come before the executors are killed, and as many again after it."""


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


def copied(log: Log, topic: str, number: int) -> list[bytes]:
    """What is in a partition, without the neighbours' records, whose values have slashes."""
    return [value for value in values(log, number, topic) if value is not None and b"/" not in value]


def test_copies_are_exact_though_executors_die_and_others_write_beside_them(
    log: Log, master: str, tmp_path: Path
) -> None:
    topics, stop, marks = [*DOORS, PLAIN], tmp_path / "stop", [tmp_path / f"{door}.killed" for door in DOORS]
    for topic in topics:
        log.create_topic(topic, partitions=PARTITIONS)
    everything = {number: [*sent("before", number), *sent("after", number)] for number in (0, 1)}
    settings = {"log": place(log), "stop": str(stop)}
    on_cluster = {"master": master, "spark": EXECUTORS, "folder": str(tmp_path)}

    with ExitStack() as stack:
        neighbour = start_job("neighbours", {"log": place(log), "topics": topics, "seed": 1}, tmp_path, "neighbour")
        plain = start_job("plain_copier", {**settings, "topic": PLAIN}, tmp_path, "plain")
        driver = start_job("cluster_copier", {**settings, **on_cluster}, tmp_path, "driver")
        programs = [stack.enter_context(program) for program in (neighbour, plain, driver)]

        def are_all_copied() -> bool:
            for program in programs:
                program.check_runs()
            return all(copied(log, topic, number) == everything[number] for topic in topics for number in (0, 1))

        def are_executors_killed() -> bool:
            driver.check_runs()
            return all(mark.exists() for mark in marks)

        write(log, "before")
        until(are_executors_killed)
        write(log, "after")
        until(are_all_copied)
        stop.touch()
        assert (driver.wait(), plain.wait()) == (0, 0), driver.last_lines()

    assert all(mark.read_text().isdecimal() for mark in marks)
    for topic in topics:
        assert [copied(log, topic, number) for number in (0, 1)] == [everything[0], everything[1]]
    for door in DOORS:
        assert last_batch(tmp_path / f"checkpoint-{door}") > 1
    beside = [value for topic in topics for value in values(log, topic=topic) if value and b"/" in value]
    assert beside
    assert all(value.startswith(b"commit/") for value in beside)
    for hanging in log.admin.find_hanging(max_age_ms=0):
        log.admin.abort_transaction(hanging.transactional_id or "")
