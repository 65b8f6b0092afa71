"""Queries from and to a log in an object store: Spark's workers find it by its URL, and credentials by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import oncelog
from oncelog.testing import invariants
from tests.support.harness.parts import require_java
from tests.support.log.logs import values
from tests.support.servers.s3 import SECRET, S3Server, s3
from tests.support.spark.jobs.object_copier import PARTITIONS, RUNS, sent
from tests.support.spark.processes import start_job
from tests.support.spark.queries import DOORS, last_batch

__all__ = ["s3"]


@pytest.mark.walk
def test_a_stream_is_copied_exactly_through_both_doors_again_and_again(s3: S3Server, tmp_path: Path) -> None:
    require_java()
    path, znodes, checkpoints = s3.url(), f"sqlite:{tmp_path / 'znodes.sqlite'}", tmp_path / "checkpoints"
    settings = {"path": path, "znodes": znodes, "checkpoints": str(checkpoints)}
    with oncelog.open(path, znodes) as log:
        for topic in ("in", *DOORS):
            log.create_topic(topic, partitions=PARTITIONS)
        with start_job("object_copier", settings, tmp_path, "copier") as job:
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
