"""An index passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog.testing.target_contract import TargetContract, TargetWorld
from search_worlds import SearchWorld
from tests.support.servers.opensearch import OpenSearch

pytestmark = pytest.mark.sampled("search")


class TestSearchTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[TargetWorld]:
        found = SearchWorld(tmp_path, spark, opensearch)
        yield found
        assert found.left() == []
        found.close()
