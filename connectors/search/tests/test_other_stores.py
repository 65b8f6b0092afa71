"""Indexes of other stores than the tests' own pass the contract of targets, too, and take documents for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog.testing.target_contract import TargetContract, TargetWorld
from search_worlds import SearchWorld
from tests.support.servers.opensearch import (
    ELASTICSEARCH_7,
    ELASTICSEARCH_8,
    ELASTICSEARCH_9,
    OPENSEARCH_3,
    OpenSearch,
    running_server,
)

pytestmark = pytest.mark.sampled("search")


STORES = (ELASTICSEARCH_7, ELASTICSEARCH_8, ELASTICSEARCH_9, OPENSEARCH_3)


@pytest.fixture(scope="module", params=STORES, ids=lambda kind: f"{kind.name} {kind.version}")
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """A server that the tests of this module share."""
    with running_server(tmp_path_factory.mktemp("store"), request.param) as server:
        yield OpenSearch(server.url)


class TestOtherStoresTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, other: OpenSearch) -> Iterator[TargetWorld]:
        found = SearchWorld(tmp_path, spark, other)
        yield found
        assert found.left() == []
        found.close()


def test_a_document_of_another_store_is_replaced(tmp_path: Path, spark: SparkSession, other: OpenSearch) -> None:
    fields = {"id": {"type": "keyword"}, "value": {"type": "keyword"}}
    world = SearchWorld(tmp_path, spark, other, fields, mode="upsert", keyColumns="id")
    world.run_job(0, world.keyed({"a": "old", "b": "old"}))
    world.run_job(1, world.keyed({"b": "new"}))

    assert {key: row["value"] for key, row in other.documents(world.index).items()} == {"a": "old", "b": "new"}
    world.close()
