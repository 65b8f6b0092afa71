"""Streaming queries from and to a log in an object store and a ZooKeeper, which is restarted under way."""

from __future__ import annotations

from pathlib import Path

import pytest

import oncelog
from integration_tests.logs import AWAY, write_surely
from integration_tests.servers import S3Server, ZookeeperServer
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.log.logs import numbered, started, values
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import DOORS

PARTITIONS = 2
COUNT = 40


class Topic:
    """What is written for a query to copy, and what is to come out of it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def write(self, name: str) -> None:
        with started(self._log, "writer") as producer:

            def send() -> None:
                for number in range(PARTITIONS):
                    for value in numbered(f"{name}-{number}", COUNT):
                        producer.send("in", value, partition=number)

            write_surely(producer, send)
        for number in range(PARTITIONS):
            self.sent[number] += numbered(f"{name}-{number}", COUNT)

    def copies(self) -> list[list[bytes | None]]:
        return [values(self._log, number, "out") for number in range(PARTITIONS)]

    def wait_until_copied(self, job: Program, count: int | None = None) -> None:
        expected = sum(map(len, self.sent)) if count is None else count

        def is_copied() -> bool:
            job.check_runs()
            return sum(map(len, self.copies())) >= expected

        until(is_copied)


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_java()


@pytest.mark.walk
@pytest.mark.parametrize("door", DOORS)
def test_a_query_waits_for_a_restart_of_zookeeper_and_after_a_longer_outage_goes_on_from_its_checkpoint(
    tmp_path: Path, s3: S3Server, zookeeper: ZookeeperServer, door: str
) -> None:
    """conformance: 52, 53, 64."""
    path, znodes = s3.url(), zookeeper.url("timeout_ms=20000")
    query = {
        "source": {"maxOffsetsPerTrigger": 20},
        "door": door,
        "sink": {"transactionalIdPrefix": "copies"},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    settings = {"log": {"path": path, "znodes": znodes}, "queries": [query]}

    with oncelog.open(path, znodes) as log:
        for name in ("in", "out"):
            log.create_topic(name, partitions=PARTITIONS)
        topic = Topic(log)
        topic.write("first")
        with start_job("copier", settings, tmp_path, "copier") as job:
            topic.wait_until_copied(job, 20)
            zookeeper.restart()
            topic.wait_until_copied(job)

            topic.write("second")
            zookeeper.kill()
            assert job.wait() != 0
            assert any(kind.__name__ in job.output.read_text() for kind in AWAY)
        zookeeper.start().wait_until_serving()

        with start_job("copier", settings, tmp_path, "copier-again") as job:
            topic.wait_until_copied(job)
        assert topic.copies() == topic.sent
        invariants.check(log)
