"""Reads of whole batches: all rows of a batch that a sink wrote appear at one moment, or none do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from driven_batches import FIRST, SECOND, World
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import at
from oncelog_kafka.crash_points import KafkaCrashPoint
from reads import EARLIEST, Source
from tests.support.harness.waiting import until

WHOLE = {"wholeBatches": "true", **EARLIEST}

BEHIND_THE_DECISION = (CrashPoint.ROUND_DECIDED, KafkaCrashPoint.END, KafkaCrashPoint.ENDED, KafkaCrashPoint.COMPLETE)


@pytest.fixture
def source(spark: SparkSession, world: World) -> Source:
    return Source(spark, world.broker, subscribe=world.topic)


@pytest.fixture
def whole(source: Source, tmp_path: Path) -> Source:
    return Source(source.spark, source.broker, **source.options, **WHOLE, znodes=str(tmp_path / "ledger"))


def test_a_batch_whose_commits_are_under_way_is_not_seen_and_would_be_without_the_option(
    world: World, source: Source, whole: Source
) -> None:
    world.run(0, FIRST)

    def look() -> None:
        until(lambda: len(FIRST) < len(source.values()) < len(FIRST + SECOND))
        assert sorted(whole.values()) == FIRST

    with at(KafkaCrashPoint.ENDED, look):
        world.run(1, SECOND)
    until(lambda: sorted(whole.values()) == [*FIRST, *SECOND])
