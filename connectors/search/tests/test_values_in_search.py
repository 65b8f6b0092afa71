"""Values at the edges of Spark's types: an index takes them as they are, or the sink refuses them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import urllib3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from oncelog.testing.extreme_values import UNSPEAKABLE, ExtremeValue
from oncelog.testing.value_contract import ValueContract, ValueWorld
from oncelog_search.batch_sink import SearchTarget
from oncelog_search.jobs import SparkJob
from search_worlds import SearchWorld
from tests.support.servers.opensearch import OpenSearch

pytestmark = pytest.mark.sampled("search")

FIELDS = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "keyword",
    "binary": "binary",
    "date": "date",
    "timestamp": "date",
    "timestamp_ntz": "date",
}


def field_of(type_: T.DataType) -> dict[str, Any]:
    """The field that a person would make for a column."""
    if isinstance(type_, T.ArrayType):
        return field_of(type_.elementType)
    if isinstance(type_, T.StructType):
        return {"properties": {each.name: field_of(each.dataType) for each in type_.fields}}
    if isinstance(type_, T.MapType):
        return {"type": "object", "enabled": False}
    return {"type": FIELDS.get(type_.simpleString(), "double")}


class SearchValueWorld(ValueWorld):
    """An index with one field. Its reader parses what the store keeps of a document."""

    def __init__(self, folder: Path, spark: SparkSession, opensearch: OpenSearch) -> None:
        super().__init__(folder, spark)
        self.search = SearchWorld(folder, spark, opensearch)
        self.numbers: type[float | Decimal] = Decimal

    def create(self, column: str, type_: str) -> bool:
        store = self.search.opensearch
        name = f"{self.search.index}-value"
        body = {"mappings": {"properties": {column: field_of(T.StructType.fromDDL(f"c {type_}")["c"].dataType)}}}  # type: ignore[index]
        found = store.ask("PUT", f"/{name}", body, is_well=False)
        self.search.index = name
        self.numbers = float if type_ in {"float", "double"} else Decimal
        return "error" not in found

    def target(self) -> SearchTarget:
        return self.search.target()

    def rows_job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)

    def read(self, column: str) -> list[Any]:
        self.search.opensearch.ask("POST", f"/{self.search.index}/_refresh")
        answer = urllib3.request("POST", f"{self.search.url}/{self.search.index}/_search")
        hits = json.loads(answer.data, parse_float=self.numbers)["hits"]["hits"]
        return [hit["_source"].get(column) for hit in hits]

    def expected(self, value: ExtremeValue) -> Any:
        is_kept_whole = value.python is UNSPEAKABLE or value.type.startswith("map<")
        return value.python if is_kept_whole else in_json(value.python)

    def close(self) -> None:
        self.search.close()


def in_json(value: Any) -> Any:
    """A value as JSON has it, without the fields that are null."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case date():
            return value.isoformat()
        case dict():
            return {name: in_json(each) for name, each in value.items() if each is not None}
        case list():
            return [in_json(each) for each in value]
    return value


class TestValuesInSearch(ValueContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[ValueWorld]:
        found = SearchValueWorld(tmp_path, spark, opensearch)
        yield found
        assert found.search.left() == []
        found.close()
