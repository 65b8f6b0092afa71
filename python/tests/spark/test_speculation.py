"""Speculation on a standalone cluster: a master, and workers on 127.0.0.1 and 127.0.0.2, all on free ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from oncelog.runtime import Log
from tests.logs import numbered, started, values
from tests.parts import require_java
from tests.spark.processes import Program, start_job
from tests.spark.queries import DOORS, until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark speculates across hosts only. Linux answers on the whole of 127.0.0.0/8; macOS needs ``ifconfig lo0 alias``."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a cluster of two executors with one core each."""
    require_java()
    with ExitStack() as stack:
        program = stack.enter_context(_start(tmp_path, "master", "master.Master", "127.0.0.1"))
        until(lambda: _found(program, r"Starting Spark master at (spark://\S+)") is not None)
        url = _found(program, r"Starting Spark master at (spark://\S+)") or ""
        for host in HOSTS:
            more = ["--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / f"work-{host}"), url]
            worker = stack.enter_context(_start(tmp_path, f"worker-{host}", "worker.Worker", host, *more))
            until(lambda worker=worker: _found(worker, "Successfully (registered) with master") is not None)  # type: ignore[misc]
        yield url


def _start(folder: Path, name: str, kind: str, host: str, *more: str) -> Program:
    place = ["--host", host, "--port", "0", "--webui-port", "0"]
    return Program([str(SPARK_CLASS), f"org.apache.spark.deploy.{kind}", *place, *more], folder, name)


def _found(program: Program, pattern: str) -> str | None:
    program.check_runs()
    found = re.search(pattern, program.output.read_text(errors="replace"))
    return found[1] if found else None


def test_a_speculative_copy_of_a_slow_task_leaves_one_copy_of_its_rows(log: Log, master: str, tmp_path: Path) -> None:
    """conformance: 54."""
    topics = {door: f"out-{door}" for door in DOORS}
    for topic in topics.values():
        log.create_topic(topic, partitions=2)
    with started(log) as producer, producer.transaction():
        for at in range(100):
            producer.send("in", b"slow-%d" % at, partition=0)
            producer.send("in", b"fast-%d" % at, partition=1)
    settings = {"log": log.path, "master": master, "topics": topics, "folder": str(tmp_path)}

    with start_job("speculation", settings, tmp_path, "driver") as driver:
        assert driver.wait() == 0, driver.last_lines()

    for door, topic in topics.items():
        assert len(list((tmp_path / door).glob("attempt-*"))) == 2, "Spark did not speculate"
        assert values(log, 0, topic) == numbered("slow", 100)
        assert values(log, 1, topic) == numbered("fast", 100)
    collected = log.admin.collect(dry_run=True)
    assert len(collected.waiting) + len(collected.removed) <= len(DOORS), "more orphan files than stalled attempts"
    assert log.admin.find_hanging(max_age_ms=0) == []
