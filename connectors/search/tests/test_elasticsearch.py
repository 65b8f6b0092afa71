"""An index of Elasticsearch passes the contract of targets, too, and takes documents in the place of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog.testing.target_contract import TargetContract, TargetWorld
from search_worlds import SearchWorld
from tests.support.servers.opensearch import ELASTICSEARCH, OpenSearch, running_server

pytestmark = pytest.mark.in_turn("search")


@pytest.fixture(scope="module")
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """A server that the tests of this module share."""
    with running_server(tmp_path_factory.mktemp("elasticsearch"), ELASTICSEARCH) as server:
        yield OpenSearch(server.url)


class TestElasticsearchTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, elasticsearch: OpenSearch) -> Iterator[TargetWorld]:
        found = SearchWorld(tmp_path, spark, elasticsearch)
        yield found
        assert found.left() == []
        found.close()


def test_a_document_of_elasticsearch_is_replaced(
    tmp_path: Path, spark: SparkSession, elasticsearch: OpenSearch
) -> None:
    fields = {"id": {"type": "keyword"}, "value": {"type": "keyword"}}
    world = SearchWorld(tmp_path, spark, elasticsearch, fields, mode="upsert", keyColumns="id")
    world.run_job(0, world.keyed({"a": "old", "b": "old"}))
    world.run_job(1, world.keyed({"b": "new"}))

    assert {key: row["value"] for key, row in elasticsearch.documents(world.index).items()} == {"a": "old", "b": "new"}
    world.close()
