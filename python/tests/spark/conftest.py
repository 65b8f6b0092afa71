"""What the tests of this folder share: one Spark, and a log on the store of choice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.harness.variants import variants
from tests.support.servers.shared import SHARED
from tests.support.spark.readers import reader
from tests.support.spark.sessions import _leaves_no_query_running, spark

__all__ = ["_leaves_no_query_running", "reader", "spark"]


@pytest.fixture(params=variants("sqlite", *SHARED))
def znodes(request: pytest.FixtureRequest) -> str | None:
    """Where the logs of these tests keep their metadata."""
    return None if request.param == "sqlite" else request.getfixturevalue(request.param).url()


@pytest.fixture
def log(tmp_path: Path, znodes: str | None) -> Iterator[Log]:
    """A log with the topics `in` and `out`, of two partitions each, that Spark's processes open by its place."""
    from oncelog.spark.logs import close_logs

    with oncelog.open(tmp_path / "log", znodes) as opened:
        for topic in ("in", "out"):
            opened.create_topic(topic, partitions=2)
        yield opened
        close_logs()
        opened.admin.settle()
        invariants.check(opened)
