"""Queries from and to a log in an object store: Spark's workers find it by its URL, and credentials by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import oncelog
from oncelog.runtime import Log
from oncelog.spark import packaging
from oncelog.testing import invariants
from tests.support.harness.parts import require_java
from tests.support.log.logs import numbered, started, values, write_aborted, write_committed
from tests.support.servers.s3 import SECRET, S3Server, s3
from tests.support.spark.processes import start_job
from tests.support.spark.queries import DOORS, last_batch, place

__all__ = ["s3"]

RUNS = ("first", "second")
PARTITIONS = 2


def sent(run: str, number: int) -> list[bytes]:
    """What is to arrive of a run in a partition."""
    return numbered(f"{run}-{number}", 50)


def write(log: Log, run: str) -> None:
    with started(log, "writer") as producer:
        for number in range(PARTITIONS):
            write_committed(producer, *sent(run, number), number=number, topic="in")
            write_aborted(producer, b"given up", number=number, topic="in")


@pytest.mark.walk
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_stream_is_copied_exactly_through_both_doors_again_and_again(
    s3: S3Server, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    require_java()
    is_here = store == "sqlite"
    znodes = f"sqlite:{tmp_path / 'znodes.sqlite'}" if is_here else request.getfixturevalue(store).url()
    path, checkpoints = s3.url(), tmp_path / "checkpoints"
    with oncelog.open(path, znodes) as log:
        for topic in ("in", *DOORS):
            log.create_topic(topic, partitions=PARTITIONS)
        queries = [
            {
                "door": door,
                "sink": {"topic": door, "transactionalIdPrefix": f"to.{door}"},
                "checkpoint": str(checkpoints / door),
                "trigger": {"availableNow": True},
            }
            for door in DOORS
        ]
        # The jar's reader must leave these logs to Python's.
        jars = {"spark.jars": str(packaging.JAR)} if packaging.JAR.is_file() else None
        for run in RUNS:
            write(log, run)
            with start_job("copier", {"log": place(log), "spark": jars, "queries": queries}, tmp_path, run) as job:
                assert job.wait() == 0, job.last_lines()

        for door in DOORS:
            assert last_batch(checkpoints / door) > 1
            for number in range(PARTITIONS):
                assert values(log, number, door) == [value for run in RUNS for value in sent(run, number)]
        log.admin.settle()
        assert log.admin.verify().problems == ()
        invariants.check(log)

    assert not list(tmp_path.rglob("*.avro"))
    kept = [file for file in checkpoints.rglob("*") if file.is_file()]
    assert [file for file in kept if SECRET.encode() in file.read_bytes()] == []
    assert kept
