"""What the sink refuses before the decision, each by name, and what the store may refuse then: nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from gates import gate
from oncelog.errors import InvalidRecordError, OncelogError, UsageError
from oncelog.testing.target_contract import at
from oncelog_search import indices, terms
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.fields import rules
from oncelog_search.indices import Index
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
        ({"a": {"type": "keyword", "copy_to": "b"}}, "a string", "field_type='object'"),
        (
            {"a": {"type": "keyword", "copy_to": "b"}, "b": {"type": "text", "fields": {"c": {"type": "long"}}}},
            "a string",
            "cast it to byte or",
        ),
        (
            {"a": {"properties": {"b": {"type": "long"}}}},
            "a struct<b: int, B: int>",
            r"same name.*\['b'\], of='a'",
        ),
        (
            {"a": {"enabled": False}},
            "a struct<b: array<struct<c: int, c: int>>>",
            r"same name.*columns=\['c'\], of='a\.b'",
        ),
        ({"a": {"enabled": False}}, "a map<string, map<date, int>>", r"keys of a map become names.*column='a'"),
        ({}, f"a {'array<' * 21}string{'>' * 21}", r"deeper than the index allows .*column='a', depth=21, limit=20"),
    ],
)
def test_columns_that_do_not_fit_are_named_before_a_job_runs(
    world: SearchWorld, fields: dict[str, Any], schema: str, said: str
) -> None:
    world.index = world.opensearch.new_index({"a": {"type": "keyword"}, **fields})

    assert re.search(said, refused_before_a_job(world, schema))


@pytest.mark.usefixtures("spark")
def test_a_field_that_the_store_computes_is_named() -> None:
    """As Elasticsearch has them; the servers of the tests lack its scripts."""
    computed = {"a": {"properties": {"b": {"type": "long", "script": {"source": "emit(1)"}}}}}

    with pytest.raises(InvalidRecordError, match=r"computes the values of this field by a script.*column='a\.b'"):
        rules(StructType.fromDDL("a array<struct<b: int>>"), Index("i", "u", computed, {}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "setting", [{"index.xpack.ccr.following_index": "true"}, {"index.plugins.replication.follower.leader_index": "i"}]
)
def test_an_index_that_follows_another_one_is_refused(setting: dict[str, str]) -> None:
    (refusal,) = indices._refusals(setting, {}, {})

    assert "the index follows another one" in refusal


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
    "copied": {"type": "keyword", "ignore_above": 10, "copy_to": ["inner.all", "all"]},
    "all": {"type": "text"},
    "more": {"properties": {"nested": {"type": "nested", "properties": {"x": {"type": "integer"}}}}},
}
FIELDS["inner"]["properties"]["all"] = {"type": "text", "fields": {"raw": {"type": "keyword"}}}

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
    "inner": "named_struct('ips', array('::', '1.2.3.4', '1::8', null, '::ffff:10.0.0.1', '64:ff9b::192.0.2.33'))",
    "many": "array(named_struct('real', 1.5f), named_struct('real', 2f), null)",
    "free": "named_struct('a', map('b', 1, 'B', 2), 'c', array(array(map('', 1))))",
    "copied": "repeat('ü', 16383)",
    "all": "repeat('z', 100000)",
    "more": "named_struct('nested', transform(sequence(1, 9998), n -> named_struct('x', int(n))))",
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
    "free": """from_json('{"a": [{"k": 1, "j": 2, "k": 3}]}', 'a array<map<string, int>>')""",
    "copied": "repeat('ü', 16384)",
    "more": "named_struct('nested', transform(sequence(1, 10001), n -> named_struct('x', int(n))))",
}
"""And those behind the ends."""


def selected(spark: SparkSession, expressions: dict[str, str]) -> SparkJob:
    """A row that no optimizer knows beforehand."""
    rows: DataFrame = spark.range(1).selectExpr(*(f"{value} AS `{name}`" for name, value in expressions.items()))
    return SparkJob(rows)


@pytest.mark.sampled("values that the store refuses")
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
    assert (found["ip"], found["bytes"]) == ("2001:db8::1", "w7w=")
    assert found["free"] == {"a": {"b": 1, "B": 2}, "c": [[{"": 1}]]}
    assert Decimal(str(found["number"])) > 10**19


@pytest.mark.sampled("values that the store refuses")
def test_a_value_that_the_store_could_refuse_decides_nothing(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index(FIELDS)
    for name, value in BROKEN.items():
        with pytest.raises(InvalidRecordError, match=rf"does not fit its field: it must be .*column='{name}[.']"):
            world.run_job(0, selected(world.spark, {name: value}), f"run-{name}")
    both = {name: BROKEN["more"].replace("10001", "5001") for name in ("more", "again")}
    world.index = world.opensearch.new_index(dict.fromkeys(both, FIELDS["more"]))
    with pytest.raises(InvalidRecordError, match=r"at most 10000 structs in nested fields.*column='more, again'"):
        world.run_job(0, selected(world.spark, both), "run-both")
    assert world.opensearch.documents(world.index) == {}


@pytest.mark.sampled("values that the store refuses")
@pytest.mark.parametrize(
    "address", ["10.0.0.2\n", "::1\n", "10.0.0.2\r\n", " ::1", "10.0.0.02", "fe80::1%eth0", "::1/64"]
)
def test_a_text_that_is_no_address_decides_nothing(world: SearchWorld, address: str) -> None:
    world.index = world.opensearch.new_index({"ip": {"type": "ip"}})

    with pytest.raises(InvalidRecordError, match=r"must be an IPv4 or IPv6 address \[column='ip'\]"):
        world.run_job(0, SparkJob(world.spark.createDataFrame([("::1",), (address,)], "ip string")))
    assert world.opensearch.documents(world.index) == {}


@pytest.mark.sampled("values that the store refuses")
def test_a_text_that_is_not_utf8_decides_nothing_and_no_two_keys_become_one(world: SearchWorld) -> None:
    world.index = world.opensearch.new_index({"id": {"type": "keyword"}, "o": {"enabled": False}})
    for mode in ({}, {"mode": "upsert", "keyColumns": "id"}):
        world.options = mode
        for key in ("X'FF'", "X'FE'", "repeat(X'C3', 200)", "repeat(X'80', 20000)", "X'EDA080'"):
            with pytest.raises(InvalidRecordError, match=r"not valid UTF-8.*column='id', value=0x"):
                world.run_job(0, selected(world.spark, {"id": f"CAST({key} AS string)"}))
        with pytest.raises(InvalidRecordError, match=r"not valid UTF-8.*column='o\.key'"):
            world.run_job(0, selected(world.spark, {"id": "'a'", "o": "map(CAST(X'FF' AS string), 1)"}))
    assert world.opensearch.documents(world.index) == {}


@pytest.mark.sampled("values that the store refuses")
def test_names_with_dots_and_quotes_are_found(world: SearchWorld) -> None:
    fields = {"o": {"properties": {"x-y": {"type": "ip"}, "`q`": {"type": "ip"}}}, "`t": {"type": "ip"}}
    world.index = world.opensearch.new_index(fields)
    rows = "named_struct('x-y', '::1', '`q`', '{}')"

    world.run_job(0, selected(world.spark, {"o": rows.format("::2")}))
    with pytest.raises(InvalidRecordError, match=r"column='o\.`q`'"):
        world.run_job(1, selected(world.spark, {"o": rows.format("no")}))


# Analyzers ------------------------------------------------------------------------------------------------------------

ANALYZERS = {
    "analyzer": {
        "long": {"type": "standard", "max_token_length": 100_000},
        "short": {"type": "standard"},
    }
}


@pytest.mark.sampled("values that the store refuses")
@pytest.mark.parametrize(
    ("field", "most"),
    [
        ({"type": "text", "analyzer": "long"}, terms.LONGEST_TERM // 3),
        ({"type": "text", "fields": {"raw": {"type": "text", "analyzer": "keyword"}}}, terms.LONGEST_TERM),
        ({"type": "search_as_you_type", "analyzer": "keyword"}, terms.LONGEST_TERM // 3),
        ({"type": "text", "analyzer": "short"}, None),
        ({"type": "text", "analyzer": "simple"}, None),
        ({"type": "text", "analyzer": "keyword", "index": False}, None),
    ],
)
def test_a_text_that_an_analyzer_does_not_cut_is_limited(
    world: SearchWorld, field: dict[str, Any], most: int | None
) -> None:
    world.index = world.opensearch.new_index({"a": field}, {"analysis": ANALYZERS})

    world.run_job(0, selected(world.spark, {"a": f"repeat('x', {most or 100_000})"}))

    if most is not None:
        with pytest.raises(InvalidRecordError, match=rf"at most {most} bytes"):
            world.run_job(1, selected(world.spark, {"a": f"repeat('x', {most + 1})"}))
    assert len(world.opensearch.documents(world.index)) == 1


@pytest.mark.parametrize(
    ("settings", "is_limited"),
    [
        ({}, False),
        ({"analyzer.default.type": "keyword"}, True),
        ({"analyzer.a.tokenizer": "keyword"}, True),
        ({"analyzer.a.type": "custom", "analyzer.a.tokenizer": "path_hierarchy"}, True),
        ({"analyzer.a.tokenizer": "whitespace", "analyzer.a.filter": "lowercase"}, False),
        ({"analyzer.a.tokenizer": "t", "tokenizer.t.type": "whitespace"}, False),
        ({"analyzer.a.tokenizer": "t", "tokenizer.t.type": "whitespace", "tokenizer.t.max_token_length": "9999"}, True),
        ({"analyzer.a.type": "pattern"}, True),
        ({"analyzer.a.type": "english"}, False),
    ],
)
def test_own_analyzers_are_known_by_their_settings(settings: dict[str, str], is_limited: bool) -> None:
    field = {"type": "text", **({"analyzer": "a"} if any("analyzer.a." in name for name in settings) else {})}

    most = terms.most_bytes(field, {f"index.analysis.{name}": value for name, value in settings.items()})

    assert (most is not None) == is_limited


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


def test_a_document_that_the_store_takes_in_no_request_decides_nothing(world: SearchWorld) -> None:
    """The store, or a proxy before it, has a lower limit than the sink's requestBytes."""
    world.options = {"requestBytes": 10_000_000}
    with gate(world.url) as (store, world.url):
        store.most_bytes = 2_000_000
        with pytest.raises(InvalidRecordError, match=r"larger than the requests that the store takes.*bytes=2000"):
            world.run_job(0, PlainJob(world.spark, [{"value": "x"}, {"value": "x" * 2_000_000}]))
        assert world.visible() == []

        store.most_bytes = 3_000_000
        world.index = world.opensearch.new_index({"value": {"type": "text"}})
        world.run_job(0, PlainJob(world.spark, [{"value": "x"}, {"value": "x" * 2_000_000}]), "run-2")
    assert sorted(map(len, world.visible())) == [1, 2_000_000]


def test_a_store_that_cannot_be_reached_is_named(world: SearchWorld) -> None:
    world.url = "http://127.0.0.1:1"

    with pytest.raises(OncelogError, match=r"the store cannot be reached: no node answers.*url='http://127.0.0.1:1'"):
        world.run(0, ["a"])

    world.url = f"http://127.0.0.1:1,{world.opensearch.url}"
    world.run(0, ["a"], "run-2")
    assert world.visible() == ["a"]
