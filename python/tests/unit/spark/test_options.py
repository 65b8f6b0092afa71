"""What users may ask of the source and the sinks, and what they are told when they ask wrongly."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from oncelog import limits
from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.options import SINKS, SOURCE, Use, render_markdown_table
from oncelog.spark.option_table import OPTIONS
from oncelog.spark.options import SinkOptions, SourceOptions, parse_sink_options, parse_source_options
from oncelog.spark.positions import AtOffsets, AtTimestamp, AtTimestamps, Bound, NoMatch
from oncelog.types import IsolationLevel, TopicPartition

SOURCE_USES = sorted(SOURCE)
SINK_USES = sorted(SINKS)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def source(use: Use = Use.STREAM_READ, /, **options: object) -> SourceOptions:
    return parse_source_options({"path": "/data/log", "subscribe": "t", **options}, use)


def sink(use: Use = Use.FOREACH_BATCH, /, **options: object) -> SinkOptions:
    return parse_sink_options({"path": "/data/log", **options}, use)


def refusal(use: Use, options: Mapping[str, object]) -> dict[str, Any]:
    """The text and fields of the error that `options` get."""
    parse = parse_source_options if use in SOURCE else parse_sink_options
    with pytest.raises(InvalidOptionError) as caught:
        parse(options, use)
    return {"message": caught.value.message, **caught.value.fields}


def refused_source(use: Use = Use.STREAM_READ, /, **options: object) -> dict[str, Any]:
    return refusal(use, {"path": "/data/log", "subscribe": "t", **options})


def refused_sink(use: Use = Use.FOREACH_BATCH, /, **options: object) -> dict[str, Any]:
    return refusal(use, {"path": "/data/log", **options})


# Values ---------------------------------------------------------------------------------------------------------------


def test_a_source_without_further_options_has_the_defaults_of_sparks_kafka_source() -> None:
    assert source() == SourceOptions(
        path="/data/log",
        znodes=None,
        subscribe=("t",),
        subscribe_pattern=None,
        assign=None,
        starting=Bound.LATEST,
        ending=Bound.LATEST,
        isolation_level=IsolationLevel.READ_COMMITTED,
        max_offsets_per_trigger=None,
        min_offsets_per_trigger=None,
        max_trigger_delay_ms=15 * 60 * 1000,
        min_partitions=None,
        group_id=None,
        fail_on_data_loss=True,
        include_headers=False,
    )


def test_a_batch_read_starts_at_the_earliest_offset_by_default() -> None:
    assert source(Use.BATCH_READ).starting is Bound.EARLIEST


def test_a_sink_without_further_options_has_the_documented_defaults() -> None:
    assert sink() == SinkOptions(
        path="/data/log",
        znodes=None,
        topic=None,
        transactional_id_prefix=None,
        round_timeout_ms=limits.ROUND_TIMEOUT_MS,
        group_id=None,
        sink_name=None,
        takeover=None,
        codec="zstd",
        checkpoint_location=None,
    )


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("znodes", " zk://h:2181/oncelog ", "znodes", "zk://h:2181/oncelog"),
        ("isolationLevel", "READ_UNCOMMITTED", "isolation_level", IsolationLevel.READ_UNCOMMITTED),
        ("maxOffsetsPerTrigger", "1000", "max_offsets_per_trigger", 1000),
        ("maxOffsetsPerTrigger", 1000, "max_offsets_per_trigger", 1000),
        ("minOffsetsPerTrigger", "10", "min_offsets_per_trigger", 10),
        ("maxTriggerDelay", "90s", "max_trigger_delay_ms", 90_000),
        ("maxTriggerDelay", "250", "max_trigger_delay_ms", 250),
        ("maxTriggerDelay", "2H", "max_trigger_delay_ms", 7_200_000),
        ("minPartitions", "8", "min_partitions", 8),
        ("groupId", "g", "group_id", "g"),
        ("failOnDataLoss", "False", "fail_on_data_loss", False),
        ("failOnDataLoss", False, "fail_on_data_loss", False),
        ("includeHeaders", "true", "include_headers", True),
        ("startingOffsets", "Earliest", "starting", Bound.EARLIEST),
        ("startingOffsets", '{"t":{"0":23,"1":-2}}', "starting", AtOffsets({T0: 23, T1: -2})),
        ("startingOffsets", '{"t":{"0":-1}}', "starting", AtOffsets({T0: -1})),
        ("startingTimestamp", "1700000000000", "starting", AtTimestamp(1_700_000_000_000)),
        ("startingOffsetsByTimestamp", '{"t":{"1":5}}', "starting", AtTimestamps({T1: 5})),
    ],
)
def test_an_option_of_the_source_is_read_into_its_type(name: str, text: object, attribute: str, value: object) -> None:
    assert getattr(source(**{name: text}), attribute) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("endingOffsets", "latest", Bound.LATEST),
        ("endingOffsets", '{"t":{"0":50,"1":-1}}', AtOffsets({T0: 50, T1: -1})),
        ("endingTimestamp", "7", AtTimestamp(7, NoMatch.LATEST)),
        ("endingOffsetsByTimestamp", '{"t":{"0":7}}', AtTimestamps({T0: 7}, NoMatch.LATEST)),
    ],
)
def test_a_batch_read_can_end_at_offsets_or_times(name: str, text: str, value: object) -> None:
    assert source(Use.BATCH_READ, **{name: text}).ending == value


def test_a_time_without_records_is_an_error_unless_the_strategy_says_latest() -> None:
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}

    assert source(startingTimestamp="5").starting == AtTimestamp(5, NoMatch.ERROR)
    assert source(startingTimestamp="5", **strategy).starting == AtTimestamp(5, NoMatch.LATEST)
    assert source(startingOffsetsByTimestamp='{"t":{"0":5}}', **strategy).starting == AtTimestamps(
        {T0: 5}, NoMatch.LATEST
    )


def test_topics_are_selected_by_names_by_pattern_or_by_partitions() -> None:
    path = {"path": "/data/log"}

    by_name = parse_source_options({**path, "subscribe": " a, b ,,a"}, Use.STREAM_READ)
    by_pattern = parse_source_options({**path, "subscribePattern": "flights-.*"}, Use.STREAM_READ)
    by_partition = parse_source_options({**path, "assign": '{"t":[1,0]}'}, Use.STREAM_READ)

    assert (by_name.subscribe, by_name.subscribe_pattern, by_name.assign) == (("a", "b"), None, None)
    assert (by_pattern.subscribe, by_pattern.subscribe_pattern, by_pattern.assign) == (None, "flights-.*", None)
    assert (by_partition.subscribe, by_partition.subscribe_pattern, by_partition.assign) == (None, None, (T0, T1))


def test_names_match_in_any_case_since_spark_lowers_them() -> None:
    assert source(startingoffsets="earliest", GROUPID="g") == source(startingOffsets="earliest", groupId="g")


def test_an_option_set_to_none_counts_as_not_given() -> None:
    assert sink(topic=None, groupId=None) == sink()


def test_a_stream_sink_takes_the_options_that_spark_adds_for_itself() -> None:
    options = sink(Use.STREAM_WRITE, topic="t", checkpointlocation="/data/ck", queryname="copy")

    assert options.checkpoint_location == "/data/ck"


@pytest.mark.parametrize("options", [source(startingOffsets='{"t":{"0":23}}'), sink(topic="t")])
def test_parsed_options_travel_to_other_processes(options: object) -> None:
    assert pickle.loads(pickle.dumps(options)) == options


# Errors ---------------------------------------------------------------------------------------------------------------


def test_brokers_are_answered_with_the_format_for_a_cluster() -> None:
    for name in ("kafka.bootstrap.servers", "KAFKA.bootstrap.Servers"):
        refused = refused_source(**{name: "x"})
        assert refused["option"] == name
        assert refused["message"].endswith("for a Kafka cluster use the format oncelog-kafka")


@pytest.mark.parametrize(
    ("key", "documented"),
    [
        ("startingoffset", "startingOffsets"),
        ("subscribepatern", "subscribePattern"),
        ("group_id", "groupId"),
        ("max_offsets_per_trigger", "maxOffsetsPerTrigger"),
        ("kafka.group.id", "groupId"),
        ("kafka.isolation.level", "isolationLevel"),
    ],
)
def test_an_unknown_option_of_the_source_is_answered_with_the_documented_one(key: str, documented: str) -> None:
    assert refused_source(**{key: "x"}) == {
        "message": "unknown option",
        "option": key,
        "use": "readStream",
        "did_you_mean": documented,
    }


@pytest.mark.parametrize(
    ("key", "documented"),
    [
        ("transactional_id_prefix", "transactionalIdPrefix"),
        ("round_timeout_ms", "roundTimeoutMs"),
        ("group_id", "groupId"),
        ("sinkname_", "sinkName"),
        ("topics", "topic"),
    ],
)
def test_an_unknown_option_of_the_sink_is_answered_with_the_documented_one(key: str, documented: str) -> None:
    assert refused_sink(**{key: "x"})["did_you_mean"] == documented


def test_an_unknown_option_like_no_other_gets_no_suggestion() -> None:
    assert refused_source(zzz="x") == {"message": "unknown option", "option": "zzz", "use": "readStream"}


@pytest.mark.parametrize(
    ("use", "option"),
    [
        (Use.STREAM_READ, "endingOffsets"),
        (Use.STREAM_READ, "endingTimestamp"),
        (Use.STREAM_READ, "endingOffsetsByTimestamp"),
        (Use.STREAM_READ, "topic"),
        (Use.STREAM_READ, "checkpointLocation"),
        (Use.BATCH_WRITE, "groupId"),
        (Use.BATCH_WRITE, "transactionalIdPrefix"),
        (Use.BATCH_WRITE, "takeover"),
        (Use.FOREACH_BATCH, "checkpointLocation"),
        (Use.FOREACH_BATCH, "subscribe"),
    ],
)
def test_an_option_of_another_use_is_named_as_documented_with_where_it_counts(use: Use, option: str) -> None:
    given = {"path": "/data/log", option.lower(): "x"}

    refused = refusal(use, given)

    assert refused["message"] == "the option does not apply here"
    assert refused["option"] == option
    assert use.value not in refused["applies_to"]
    assert refused["applies_to"]


@pytest.mark.parametrize("use", SOURCE_USES + SINK_USES)
@pytest.mark.parametrize("path", [{}, {"path": None}])
def test_the_path_is_required_everywhere(use: Use, path: dict[str, object]) -> None:
    subscribe = {"subscribe": "t"} if use in SOURCE else {}

    assert refusal(use, {**path, **subscribe})["option"] == "path"


@pytest.mark.parametrize("use", SOURCE_USES)
def test_exactly_one_selection_of_topics_is_required(use: Use) -> None:
    path = {"path": "/data/log"}

    assert refusal(use, path)["one_of"] == ["subscribe", "subscribePattern", "assign"]
    assert refusal(use, {**path, "subscribe": "a", "assign": '{"a":[0]}'})["given"] == ["subscribe", "assign"]
    assert refusal(use, {**path, "subscribe": "a", "subscribePattern": "a"})["given"] == [
        "subscribe",
        "subscribePattern",
    ]


@pytest.mark.parametrize("use", SOURCE_USES)
def test_a_read_starts_in_one_way_only(use: Use) -> None:
    refused = refused_source(use, startingOffsets="earliest", startingTimestamp="5")

    assert refused["given"] == ["startingOffsets", "startingTimestamp"]


def test_a_batch_read_ends_in_one_way_only() -> None:
    refused = refused_source(Use.BATCH_READ, endingTimestamp="5", endingOffsetsByTimestamp='{"t":{"0":5}}')

    assert refused["given"] == ["endingTimestamp", "endingOffsetsByTimestamp"]


@pytest.mark.parametrize("use", SOURCE_USES)
def test_starting_at_a_groups_offsets_needs_the_group(use: Use) -> None:
    assert refused_source(use, startingOffsets="group")["missing"] == "groupId"
    assert source(use, startingOffsets="group", groupId="g").starting is Bound.GROUP


def test_a_strategy_for_times_needs_a_time() -> None:
    assert refused_source(startingOffsetsByTimestampStrategy="latest")["missing"] == "startingTimestamp"


@pytest.mark.parametrize("text", ["latest", '{"t":{"0":5,"1":-1}}'])
def test_a_batch_read_cannot_start_at_the_latest_offset(text: str) -> None:
    refused = refused_source(Use.BATCH_READ, startingOffsets=text)

    assert (refused["option"], refused["value"]) == ("startingOffsets", text)
    assert refused["expected"] == 'earliest, group, or JSON of the shape {"topic":{"0":23,"1":-2}} without -1'


@pytest.mark.parametrize("text", ["earliest", "group", '{"t":{"0":5,"1":-2}}'])
def test_a_batch_read_cannot_end_at_the_earliest_offset(text: str) -> None:
    assert refused_source(Use.BATCH_READ, endingOffsets=text)["option"] == "endingOffsets"


def test_a_batch_read_starts_and_ends_on_the_same_partitions() -> None:
    refused = refused_source(Use.BATCH_READ, startingOffsets='{"t":{"0":5,"1":5}}', endingOffsets='{"t":{"0":9,"2":9}}')

    assert refused["in_one_only"] == ["t-1", "t-2"]


def test_a_batch_read_does_not_start_behind_its_end() -> None:
    refused = refused_source(Use.BATCH_READ, startingOffsets='{"t":{"0":6}}', endingOffsets='{"t":{"0":5}}')

    assert (refused["partition"], refused["start"], refused["end"]) == ("t-0", 6, 5)
    source(Use.BATCH_READ, startingOffsets='{"t":{"0":6}}', endingOffsets='{"t":{"0":-1}}')
    source(Use.BATCH_READ, startingOffsets='{"t":{"0":6}}', endingOffsets='{"t":{"0":6}}')


def test_a_batch_read_does_not_start_later_than_it_ends() -> None:
    refused = refused_source(
        Use.BATCH_READ, startingOffsetsByTimestamp='{"t":{"0":6}}', endingOffsetsByTimestamp='{"t":{"0":5}}'
    )

    assert (refused["partition"], refused["start"], refused["end"]) == ("t-0", 6, 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soonest",
        "{",
        "[]",
        "{}",
        '{"t":{}}',
        '{"t":5}',
        '{"t":[0]}',
        '{"t":{"x":5}}',
        '{"t":{"-1":5}}',
        '{"t":{"0":"5"}}',
        '{"t":{"0":5.5}}',
        '{"t":{"0":true}}',
        '{"t":{"0":null}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":1,"0":2}}',
        '{"t":{"0":1},"t":{"1":2}}',
    ],
)
def test_malformed_offsets_are_answered_with_the_shape_they_should_have(text: str) -> None:
    refused = refused_source(startingOffsets=text)

    assert (refused["option"], refused["value"]) == ("startingOffsets", text)
    assert refused["expected"] == 'earliest, latest, group, or JSON of the shape {"topic":{"0":23,"1":-2}}'


@pytest.mark.parametrize("text", ["t", "[0]", "{}", '{"t":[]}', '{"t":0}', '{"t":[-1]}', '{"t":["0"]}', '{"t":[true]}'])
def test_a_malformed_assignment_is_answered_with_the_shape_it_should_have(text: str) -> None:
    refused = refusal(Use.STREAM_READ, {"path": "/data/log", "assign": text})

    assert (refused["option"], refused["expected"]) == ("assign", 'JSON of the shape {"topic":[0,1]}')


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "-5"),
        ("minOffsetsPerTrigger", "1.5"),
        ("minPartitions", "many"),
        ("maxTriggerDelay", "soon"),
        ("maxTriggerDelay", "5 weeks"),
        ("isolationLevel", "serializable"),
        ("failOnDataLoss", "maybe"),
        ("includeHeaders", "1"),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestamp", '{"t":{"0":-1}}'),
        ("groupId", " "),
    ],
)
def test_a_malformed_value_is_answered_with_what_was_expected(option: str, text: str) -> None:
    refused = refused_source(**{option.lower(): text})

    assert (refused["message"], refused["option"]) == ("the option's value is malformed", option)
    assert (refused["value"], bool(refused["expected"])) == (text, True)


@pytest.mark.parametrize("pattern", ["", "(", "[a-"])
def test_a_pattern_must_be_a_regular_expression(pattern: str) -> None:
    refused = refusal(Use.STREAM_READ, {"path": "/data/log", "subscribePattern": pattern})

    assert refused["option"] == "subscribePattern"


def test_a_pattern_that_python_may_read_otherwise_some_day_is_read_as_it_is_today() -> None:
    """Python warns of it, and a program may have warnings as errors."""
    parsed = parse_source_options({"path": "/data/log", "subscribePattern": "[[a]b"}, Use.STREAM_READ)

    assert parsed.subscribe_pattern == "[[a]b"


def test_a_subscription_names_at_least_one_topic() -> None:
    assert refused_source(subscribe=" , ")["expected"] == "topic names, separated by commas"


def test_the_least_of_a_batch_is_not_above_the_most() -> None:
    refused = refused_source(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")

    assert (refused["minOffsetsPerTrigger"], refused["maxOffsetsPerTrigger"]) == (10, 9)


@pytest.mark.parametrize("prefix", ["copier-0", "a-b-12", ""])
def test_a_prefix_does_not_look_like_one_of_its_transactional_ids(prefix: str) -> None:
    assert refused_sink(transactionalIdPrefix=prefix)["option"] == "transactionalIdPrefix"


@pytest.mark.parametrize(
    ("prefix", "sink_name"),
    [("p" * 600, "s" * 600), ("p" * 512, "s" * 512), (None, "s" * 990)],
    ids=["both long", "a byte too long", "behind the query's id"],
)
def test_a_prefix_and_a_sink_name_are_one_name_in_the_ledger(prefix: str | None, sink_name: str) -> None:
    found = refused_sink(transactionalIdPrefix=prefix, sinkName=sink_name)

    assert found["options"] == ["transactionalIdPrefix", "sinkName"]
    assert "too long" in found["expected"]
    fits = sink_name[: 1023 - len(prefix or "q" * 36)]
    assert sink(transactionalIdPrefix=prefix, sinkName=fits).sink_name == fits


@pytest.mark.parametrize("prefix", ["copier", "copier-v2", "copier0", "3f1c-11ee"])
def test_a_prefix_may_hold_digits(prefix: str) -> None:
    assert sink(transactionalIdPrefix=prefix).transactional_id_prefix == prefix


@pytest.mark.parametrize("dependent", ["groupId", "takeover"])
def test_what_outlives_a_query_needs_a_prefix_that_does(dependent: str) -> None:
    assert refused_sink(**{dependent: "x"})["missing"] == "transactionalIdPrefix"
    sink(transactionalIdPrefix="copier", **{dependent: "x"})


def test_a_stream_sink_must_be_told_the_checkpoint_as_an_option() -> None:
    assert refused_sink(Use.STREAM_WRITE, topic="t")["missing"] == "checkpointLocation"


def test_an_option_is_given_once() -> None:
    assert refused_sink(groupId="a", groupid="b")["option"] == "groupId"


@pytest.mark.parametrize("value", [1.5, ["t"], {"t": 0}, b"t"])
def test_a_value_of_another_python_type_is_refused(value: object) -> None:
    assert refused_sink(topic=value)["option"] == "topic"


# The table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", list(Use))
def test_a_name_has_one_meaning_per_use(use: Use) -> None:
    names = [option.name.lower() for option in OPTIONS if use in option.uses]

    assert sorted(set(names)) == sorted(names)


def test_every_default_is_a_value_its_option_takes() -> None:
    assert [option.parse(option.default) for option in OPTIONS if option.default is not None]


def test_the_docs_show_every_option_with_where_it_counts_and_its_default() -> None:
    table = render_markdown_table(OPTIONS)

    assert table.count("\n") == len(OPTIONS) + 2
    assert "| `startingOffsets` | source, stream | `latest` | Where a new query starts" in table
    assert "| `startingOffsets` | source, batch | `earliest` |" in table
    assert "| `transactionalIdPrefix` | streaming sinks | the query id |" in table


def test_the_docs_can_show_the_source_or_the_sinks_alone() -> None:
    sources, sinks = render_markdown_table(OPTIONS, SOURCE), render_markdown_table(OPTIONS, SINKS)

    assert ("`subscribe`" in sources, "`codec`" in sources) == (True, False)
    assert ("`subscribe`" in sinks, "`codec`" in sinks) == (False, True)
