"""Laws of the sink, through both of its doors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog.runtime import Log
from tests.logs import numbered, started, values, write_aborted, write_committed, records
from tests.spark.queries import DOORS, copy, forget_last_commit, stream

pytestmark = pytest.mark.parametrize("door", DOORS)


def test_a_replayed_batch_changes_nothing(spark: SparkSession, log: Log, tmp_path: Path, door: str) -> None:
    """conformance: 52."""
    with started(log) as producer:
        write_committed(producer, *numbered("a", 5), topic="in")
        write_aborted(producer, *numbered("no", 5), topic="in")
    copy(stream(spark, log), log, door, tmp_path / "ck")
    before = records(log, "out")
    forget_last_commit(tmp_path / "ck")

    copy(stream(spark, log), log, door, tmp_path / "ck")

    assert [record.value for record in before] == numbered("a", 5)
    assert records(log, "out") == before
    with started(log) as producer:
        write_committed(producer, *numbered("b", 5), topic="in")
    copy(stream(spark, log), log, door, tmp_path / "ck")
    assert values(log, topic="out") == [*numbered("a", 5), *numbered("b", 5)]
