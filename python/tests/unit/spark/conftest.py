"""What the tests of both stream readers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog import limits
from oncelog.runtime import Log
from oncelog.spark.logs import close_logs
from oncelog.testing import invariants
from tests.support.log.logs import TOPIC


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log with one topic of two partitions; what is left of it in the end is checked."""
    with oncelog.open(tmp_path / "log") as opened:
        opened.create_topic(TOPIC, partitions=2)
        yield opened
        close_logs()
        with pytest.MonkeyPatch.context() as end:
            end.setattr(limits, "SETTLE_LAG_MS", 0)  # there are no plans any more that settling could disturb
            invariants.check(opened)
