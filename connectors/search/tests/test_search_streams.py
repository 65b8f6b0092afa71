"""Queries into the sink, from start to end: what a reader that is not ours finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog_search
from oncelog.errors import InvalidRecordError
from oncelog.spark.kit.ledgers import close_ledgers
from tests.support.servers.opensearch import OpenSearch
from tests.support.spark.faults import failing_once
from tests.support.spark.json_queries import JsonQuery
from tests.support.spark.queries import forget_last_commit
from tests.support.spark.staging import left_staging

KEYED = {"id": {"type": "integer"}, "value": {"type": "keyword"}}


class Query(JsonQuery):
    """A query into an index."""

    def __init__(self, spark: SparkSession, folder: Path, opensearch: OpenSearch) -> None:
        super().__init__(spark, folder)
        self.opensearch = opensearch
        self.index = opensearch.new_index(KEYED)
        self.staging = folder / "staging"

    def run(self, df: DataFrame | None = None, **more: Any) -> None:
        """Write what there is; see `run_into`."""
        given = {"url": self.opensearch.url, "index": self.index, "staging": str(self.staging)}
        self.run_into(oncelog_search.sink(**{**given, "transactionalIdPrefix": "flights", **more}), df)

    def found(self) -> list[tuple[Any, ...]]:
        """The values of all documents, sorted."""
        documents = self.opensearch.documents(self.index).values()
        return sorted((document["id"], document["value"]) for document in documents)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, opensearch: OpenSearch) -> Iterator[Query]:
    yield Query(spark, tmp_path, opensearch)
    close_ledgers()


@pytest.mark.sampled("search")
def test_rows_are_there_once_though_spark_runs_a_batch_and_a_task_again(query: Query) -> None:
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": 'line\nends \x1e and "quotes"'})
    query.run(query.source().mapInArrow(failing_once(query.folder), query.schema))
    forget_last_commit(query.checkpoint)
    query.add({"id": 2, "value": "b"})
    query.run()

    assert list(query.folder.glob("failed-*"))
    assert [(report.rows, report.is_replay) for report in query.reports] == [(0, True), (1, False)]
    assert query.found() == [(1, "a"), (2, "b"), (2, 'line\nends \x1e and "quotes"')]
    assert left_staging(query.staging) == []
    assert (query.staging / "_oncelog" / "ledger").is_dir(), "the ledger is in the folder"


def test_a_row_replaces_the_document_of_its_key(query: Query) -> None:
    upsert: dict[str, Any] = {"mode": "upsert", "keyColumns": "id", "refresh": True}
    query.add({"id": 1, "value": "a"}, {"id": 2, "value": "b"})
    query.run(**upsert)
    query.add({"id": 2, "value": "c"}, {"id": 3, "value": "d"})
    query.run(**upsert)
    forget_last_commit(query.checkpoint)
    query.run(**upsert)

    assert [report.is_replay for report in query.reports] == [True]
    assert set(query.opensearch.documents(query.index)) == {"1", "2", "3"}, "a key of one column is the _id"
    assert query.found() == [(1, "a"), (2, "c"), (3, "d")]

    query.add({"id": 3, "value": "e"}, {"id": 3, "value": "f"})
    with pytest.raises(InvalidRecordError, match=r"two rows of the batch have the same key.*id='3'"):
        query.run(**upsert)
    assert query.found() == [(1, "a"), (2, "c"), (3, "d")]
