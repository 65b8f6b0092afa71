"""What the sink refuses before the decision, each by name, and what the store may refuse then: nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog.errors import InvalidRecordError, OncelogError, UsageError
from oncelog.testing.target_contract import at
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.jobs import SparkJob
from search_worlds import PlainJob, SearchWorld
from tests.support.servers.opensearch import OpenSearch

VALUE = {"value": {"type": "keyword"}}


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[SearchWorld]:
    found = SearchWorld(tmp_path, spark, opensearch)
    yield found
    assert found.left() == []
    found.close()


def refused_before_a_job(world: SearchWorld, schema: str = "value string") -> str:
    """The text of the error for rows that are not asked for."""
    with at(SearchCrashPoint.WRITTEN, lambda: None) as passed, pytest.raises(UsageError) as refused:
        world.run_job(1, PlainJob(world.spark, [], schema))
    assert SearchCrashPoint.WRITTEN not in passed
    return str(refused.value)


@pytest.mark.parametrize(
    ("fields", "schema", "said"),
    [
        ({}, "value string", r"no such field; add it, or leave .*column='value', fields=\['a'\], index='test-"),
        ({}, "a int, A int", r"same name.*columns=\['a'\]"),
        ({"a": {"type": "integer"}}, "a bigint", "cast it to byte or integer or short first.*type='bigint'"),
        ({"a": {"type": "long"}}, "a string", "cast it to byte or integer or long or short"),
        ({"a": {"type": "keyword"}}, "a double", "cast it to boolean or byte or integer or long or short or string"),
        ({"a": {"type": "date"}}, "a string", "cast it to date or timestamp or timestamp_ntz"),
        ({"a": {"type": "date", "format": "epoch_millis"}}, "a timestamp", "add .*strict_date_optional_time to it"),
        ({"a": {"type": "geo_point"}}, "a string", "does not write into fields of this type.*field_type='geo_point'"),
        ({"a": {"type": "integer_range"}}, "a int", "field_type='integer_range'"),
        ({"a": {"type": "keyword"}}, "a struct<b: int>", "cast it to"),
        ({"a": {"properties": {"b": {"type": "long"}}}}, "a struct<c: int>", r"no such field.*column='a\.c'"),
        ({"a": {"properties": {"b": {"type": "long"}}}}, "a map<string, int>", "field_type='object'"),
        ({"a": {"type": "nested", "properties": {}}}, "a array<struct<c: int>>", r"no such field.*column='a\.c'"),
        ({"a": {"type": "integer", "fields": {"b": {"type": "ip"}}}}, "a int", "cast it to string"),
        ({"a": {"type": "keyword", "copy_to": "b"}, "b": {"type": "long"}}, "a string", "cast it to byte or"),
    ],
)
def test_columns_that_do_not_fit_are_named_before_a_job_runs(
    world: SearchWorld, fields: dict[str, Any], schema: str, said: str
) -> None:
    world.index = world.opensearch.new_index({"a": {"type": "keyword"}, **fields})

    assert re.search(said, refused_before_a_job(world, schema))


@pytest.mark.parametrize(
    ("settings", "mapping", "said"),
    [
        ({"index.blocks.write": True}, {}, "blocked for writing; set index.blocks.write to false"),
        ({"index.default_pipeline": "p"}, {}, "an ingest pipeline, .*; take index.default_pipeline out"),
        ({"index.final_pipeline": "p"}, {}, "take index.final_pipeline out"),
        ({"index.translog.durability": "async"}, {}, "set index.translog.durability to request"),
        ({}, {"_routing": {"required": True}}, "wants a routing for each document"),
    ],
)
def test_indices_that_cannot_keep_a_batch_are_refused(
    world: SearchWorld, settings: dict[str, Any], mapping: dict[str, Any], said: str
) -> None:
    world.index = world.opensearch.new_index(VALUE, settings, **mapping)

    assert re.search(said, refused_before_a_job(world))


def test_names_that_lead_to_no_index_to_write_to_are_refused(world: SearchWorld) -> None:
    ask, one, two = world.opensearch.ask, world.index, world.opensearch.new_index(VALUE)
    world.index = "test-none"
    assert "the store has no such index" in refused_before_a_job(world)

    world.index = alias = f"{one}-alias"
    ask("POST", "/_aliases", {"actions": [{"add": {"indices": [one, two], "alias": alias}}]})
    assert "none of them is the one to write to" in refused_before_a_job(world)
    ask("POST", "/_aliases", {"actions": [{"add": {"index": two, "alias": alias, "is_write_index": True}}]})
    world.run(0, ["a"])
    assert [document["value"] for document in world.opensearch.documents(two).values()] == ["a"]
    world.options = {"mode": "upsert", "keyColumns": "value"}
    assert re.search(r"several indices, .*indices=\['test-", refused_before_a_job(world))

    world.index = one
    ask("POST", f"/{one}/_close")
    assert "the index is closed" in refused_before_a_job(world)


def test_keys_that_make_no_id_are_refused_before_a_job_runs(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index({"id": {"type": "double"}, **VALUE})
    for columns, said in (("other", "keyColumns is missing .*column='other'"), ("id", "cannot be part of an _id")):
        world.options = {"mode": "upsert", "keyColumns": columns}
        assert re.search(said, refused_before_a_job(world, "id double, value string"))


# Values ---------------------------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "text": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
    "cut": {"type": "keyword", "ignore_above": 256},
    "small": {"type": "half_float"},
    "real": {"type": "float"},
    "double": {"type": "double"},
    "number": {"type": "scaled_float", "scaling_factor": 100},
    "natural": {"type": "unsigned_long"},
    "ip": {"type": "ip"},
    "day": {"type": "date"},
    "at": {"type": "date", "format": "epoch_millis||strict_date_optional_time"},
    "nanos": {"type": "date_nanos"},
    "is": {"type": "boolean"},
    "bytes": {"type": "binary"},
    "inner": {"properties": {"ips": {"type": "ip"}}},
    "many": {"type": "nested", "properties": {"real": {"type": "float"}}},
    "free": {"type": "object", "enabled": False},
}

SOUND = {
    "text": "repeat('ü', 16383)",
    "cut": "repeat('ü', 20000)",
    "small": "65504f",
    "real": "3.4028234663852886e38d",
    "double": "-1.7976931348623157e308d",
    "number": "12345678901234567890.12BD",
    "natural": "9223372036854775807L",
    "ip": "'2001:db8::1'",
    "day": "date'9999-12-31'",
    "at": "timestamp'0001-01-01T00:00:00.123456Z'",
    "nanos": "timestamp_ntz'1970-01-01T00:00:00.000001'",
    "is": "true",
    "bytes": "binary('ü')",
    "inner": "named_struct('ips', array('::', '1.2.3.4', '1::8', null))",
    "many": "array(named_struct('real', 1.5f), named_struct('real', 2f), null)",
    "free": "named_struct('a', map('b', 1))",
}
"""Of each field, the values at the ends of what the sink lets through."""

BROKEN = {
    "text": "repeat('ü', 16384)",
    "small": "65505",
    "real": "1e39d",
    "double": "double('NaN')",
    "number": "-double('Infinity')",
    "natural": "-1L",
    "ip": "'1.2.3.256'",
    "day": "date'9999-12-31' + interval 1 day",
    "at": "timestamp'0001-01-01T00:00:00Z' - interval 1 second",
    "nanos": "timestamp'1969-12-31T23:59:59Z'",
    "inner": "named_struct('ips', array('::', 'localhost', null))",
    "many": "array(named_struct('real', float('NaN')))",
}
"""And those behind the ends."""


def selected(spark: SparkSession, expressions: dict[str, str]) -> SparkJob:
    """A row that no optimizer knows beforehand."""
    rows: DataFrame = spark.range(1).selectExpr(*(f"{value} AS `{name}`" for name, value in expressions.items()))
    return SparkJob(rows)


@pytest.mark.in_turn("values that the store refuses")
def test_what_the_sink_lets_through_the_store_takes(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index(FIELDS)

    world.run_job(0, selected(world.spark, SOUND))

    (found,) = world.opensearch.documents(world.index).values()
    assert set(found) == set(SOUND)
    assert (found["day"], found["at"], found["nanos"]) == (
        "9999-12-31",
        "0001-01-01T00:00:00.123456Z",
        "1970-01-01T00:00:00.000001Z",
    )
    assert (found["ip"], found["bytes"], found["free"]) == ("2001:db8::1", "w7w=", {"a": {"b": 1}})
    assert Decimal(str(found["number"])) > 10**19


@pytest.mark.in_turn("values that the store refuses")
def test_a_value_that_the_store_could_refuse_decides_nothing(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index(FIELDS)
    for name, value in BROKEN.items():
        with pytest.raises(InvalidRecordError, match=rf"does not fit its field: it must be .*column='{name}[.']"):
            world.run_job(0, selected(world.spark, {name: value}), f"run-{name}")
    assert world.opensearch.documents(world.index) == {}


def test_keys_of_several_columns_never_meet(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index({"a": {"type": "keyword"}, "b": {"type": "keyword"}})
    world.options = {"mode": "upsert", "keyColumns": "a,b"}
    rows = [("a|", "b"), ("a", "|b"), ("a\\", "|b"), ("", ""), ('"', "\n")]

    world.run_job(0, SparkJob(world.spark.createDataFrame(rows, "a string, b string")))

    found = world.opensearch.documents(world.index).values()
    assert sorted((document["a"], document["b"]) for document in found) == sorted(rows)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("CAST(null AS string)", r"no value in a key column.*columns=\['id'\]"),
        ("''", r"an empty text as its key.*columns=\['id'\]"),
        ("repeat('ü', 257)", "the key of a row is longer than 512 bytes"),
    ],
)
def test_a_key_that_makes_no_id_decides_nothing(world: SearchWorld, key: str, said: str) -> None:
    world.index = world.opensearch.new_index({"id": {"type": "keyword"}})
    world.options = {"mode": "upsert", "keyColumns": "id"}

    with pytest.raises(InvalidRecordError, match=said):
        world.run_job(0, selected(world.spark, {"id": key}))


def test_a_document_that_fits_into_no_request_decides_nothing(world: SearchWorld) -> None:
    world.options = {"requestBytes": 100}

    with pytest.raises(InvalidRecordError, match=r"larger than a request may be.*requestBytes=100"):
        world.run_job(0, selected(world.spark, {"value": "repeat('x', 100)"}))


def test_a_store_that_cannot_be_reached_is_named(world: SearchWorld) -> None:
    world.url = "http://127.0.0.1:1"

    with pytest.raises(OncelogError, match=r"the store cannot be reached: no node answers.*url='http://127.0.0.1:1'"):
        world.run(0, ["a"])

    world.url = f"http://127.0.0.1:1,{world.opensearch.url}"
    world.run(0, ["a"], "run-2")
    assert world.visible() == ["a"]
