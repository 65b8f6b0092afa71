"""What a sink has decided is sent without its query, by the sink itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import oncelog_search
from oncelog.batches import overview
from oncelog.crash_points import CrashPoint
from oncelog.spark.kit.committer_sink import Completion
from oncelog.testing.target_contract import FIRST, StoppedOnPurposeError, at, stop
from search_worlds import SearchWorld
from tests.support.servers.opensearch import OpenSearch

pytestmark = pytest.mark.sampled("search")


def test_a_sink_completes_what_it_has_decided(tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> None:
    world = SearchWorld(tmp_path, spark, opensearch)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, FIRST)
    (before,) = overview.find_ledgers(world.store, world.prefix)
    sink = oncelog_search.sink(
        url=world.url, index=world.index, staging=str(world.staging), transactionalIdPrefix=world.prefix
    )

    told = [sink._complete(spark, world.prefix, world.store) for _ in range(2)]

    assert (before.target, before.is_over) == ("search", False)
    assert told == [Completion(world.prefix, (0,), 0, None), Completion(world.prefix, (), 0, None)]
    assert world.holds(FIRST)
    assert world.left() == []
    assert world.run(0, FIRST, "run-2").is_replay
    world.close()
