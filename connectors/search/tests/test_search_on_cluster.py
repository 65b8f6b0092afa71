"""A stage of the sink that Spark runs again, on executors of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.opensearch import OpenSearch
from tests.support.spark.reruns import Rerun, RerunContract
from tests.support.spark.staging import left_staging

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")


class World(Rerun):
    """Such a query into an index."""

    def __init__(self, opensearch: OpenSearch, folder: Path) -> None:
        self._opensearch = opensearch
        self._index = opensearch.new_index({"id": {"type": "integer"}, "value": {"type": "keyword"}})
        self._staging = folder / "staging"
        sink = {"url": opensearch.url, "index": self._index, "staging": str(self._staging)}
        super().__init__(folder, "oncelog_search:sink", sink)

    def found(self) -> list[tuple[object, ...]]:
        documents = self._opensearch.documents(self._index).values()
        return sorted((document["id"], document["value"]) for document in documents)

    def left(self) -> list[str]:
        return left_staging(self._staging)


class TestSearchOnCluster(RerunContract):
    @pytest.fixture
    def world(self, opensearch: OpenSearch, tmp_path: Path) -> World:
        return World(opensearch, tmp_path)
