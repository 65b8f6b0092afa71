"""Speculation on a standalone cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.runtime import Log
from tests.support.log.logs import numbered, started, values
from tests.support.spark.processes import start_job
from tests.support.spark.queries import DOORS, place
from tests.support.spark.standalone import speculating_executors, standalone_cluster
from tests.support.spark.writers import WRITERS, jars_of

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Two executors with one core each, on different hosts: Spark speculates across hosts only."""
    with standalone_cluster(tmp_path) as url:
        yield url


@pytest.mark.parametrize("writer", WRITERS)
def test_a_speculative_copy_of_a_slow_task_leaves_one_copy_of_its_rows(
    log: Log, master: str, tmp_path: Path, writer: str
) -> None:
    """conformance: 54."""
    topics = {door: f"out-{door}" for door in DOORS}
    for topic in topics.values():
        log.create_topic(topic, partitions=2)
    with started(log) as producer, producer.transaction():
        for at in range(100):
            producer.send("in", b"slow-%d" % at, partition=0)
            producer.send("in", b"fast-%d" % at, partition=1)
    queries = []
    for door, topic in topics.items():
        folder = tmp_path / door
        folder.mkdir()
        query = {"door": door, "sink": {"topic": topic}, "checkpoint": str(folder / "checkpoint")}
        queries.append({**query, "fault": "stalled", "folder": str(folder), "trigger": {"availableNow": True}})
    settings = {
        "log": place(log),
        "master": master,
        "spark": speculating_executors() | jars_of(writer),
        "queries": queries,
        "in_turn": True,
    }

    with start_job("copier", settings, tmp_path, "driver") as driver:
        assert driver.wait() == 0, driver.last_lines()

    for door, topic in topics.items():
        assert len(list((tmp_path / door).glob("attempt-*"))) == 2, "Spark did not speculate"
        assert values(log, 0, topic) == numbered("slow", 100)
        assert values(log, 1, topic) == numbered("fast", 100)
    collected = log.admin.collect(dry_run=True)
    assert len(collected.waiting) + len(collected.removed) <= len(DOORS), "more orphan files than stalled attempts"
    assert log.admin.find_hanging(max_age_ms=0) == []
