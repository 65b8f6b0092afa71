"""The offset that Spark keeps for the source: its text, the rules by which it moves, and fingerprints of batches."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.batches.fingerprint import fingerprint
from oncelog.errors import CorruptDataError, UnsupportedFormatError, UsageError
from oncelog.spark.offsets import (
    PartitionEnd,
    SourceOffset,
    TopicOffsets,
    advance,
    check_same_log,
    is_source_offset,
    parse_offset,
    ranges,
)
from oncelog.types import TopicIdPartition

OFFSET = SourceOffset("c1", "g", {"t": TopicOffsets("id-t", {0: 5, 1: 7}), "s": TopicOffsets("id-s", {0: 0})})


def at(topic: str, partition: int) -> TopicIdPartition:
    return TopicIdPartition(topic, f"id-{topic}", partition)


def found(topic: str, partition: int, *, end: int, log_start: int = 0) -> PartitionEnd:
    return PartitionEnd(at(topic, partition), log_start, end)


# Text -----------------------------------------------------------------------------------------------------------------


def test_the_text_has_topics_by_name_and_partitions_by_number() -> None:
    many = SourceOffset("c1", None, {"b": TopicOffsets("2", {10: 1, 9: 2, 0: 3}), "a": TopicOffsets("1", {0: 4})})

    assert many.to_json() == (
        '{"version":1,"cluster_id":"c1","group_id":null,"topics":'
        '{"a":{"id":"1","offsets":{"0":4}},"b":{"id":"2","offsets":{"0":3,"9":2,"10":1}}}}'
    )


def test_equal_offsets_give_equal_text_however_they_were_made() -> None:
    one = SourceOffset("c1", "g", {"s": TopicOffsets("id-s", {0: 0}), "t": TopicOffsets("id-t", {1: 7, 0: 5})})

    assert one == OFFSET
    assert json.dumps(one.to_dict()) == json.dumps(OFFSET.to_dict())


def test_an_offset_survives_spark_and_its_checkpoint() -> None:
    through_spark = json.loads(json.dumps(OFFSET.to_dict()))

    assert parse_offset(through_spark) == OFFSET
    assert parse_offset(OFFSET.to_json()) == OFFSET
    assert pickle.loads(pickle.dumps(OFFSET)) == OFFSET


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "null",
        "[]",
        "{}",
        '{"version":1}',
        '{"version":0,"cluster_id":"c","group_id":null,"topics":{}}',
        '{"version":1,"cluster_id":5,"group_id":null,"topics":{}}',
        '{"version":1,"cluster_id":"c","group_id":5,"topics":{}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":[]}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{}}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{"id":"x","offsets":{"01":1}}}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{"id":"x","offsets":{"-1":1}}}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{"id":"x","offsets":{"0":-1}}}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{"id":"x","offsets":{"0":true}}}}',
        '{"version":1,"cluster_id":"c","group_id":null,"topics":{"t":{"id":"x","offsets":{"0":1.0}}}}',
    ],
)
def test_what_is_no_offset_of_the_source_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        parse_offset(text)

    assert caught.value.fields["found"] == text


def test_an_offset_of_a_newer_version_asks_for_an_upgrade() -> None:
    newer = '{"version":2,"cluster_id":"c","group_id":null,"topics":{},"more":1}'

    with pytest.raises(UnsupportedFormatError):
        parse_offset(newer)
    assert is_source_offset(newer)


@pytest.mark.parametrize("text", ["0", '{"logOffset":0}', "-", '{"topic":{"0":5}}', "[1]", '"version"', ""])
def test_offsets_of_other_sources_are_told_apart(text: str) -> None:
    assert not is_source_offset(text)
    assert is_source_offset(OFFSET.to_json())


# Rules ----------------------------------------------------------------------------------------------------------------


def test_a_batch_ends_where_the_plan_says() -> None:
    after = advance(OFFSET, [found("t", 0, end=9), found("t", 1, end=8), found("s", 0, end=1)])

    assert after.partitions() == {at("s", 0): 1, at("t", 0): 9, at("t", 1): 8}


def test_an_end_never_goes_backwards() -> None:
    after = advance(OFFSET, [found("t", 0, end=4), found("t", 1, end=8), found("s", 0, end=0)])

    assert after.partitions() == {at("s", 0): 0, at("t", 0): 5, at("t", 1): 8}


def test_no_new_data_gives_the_start_itself() -> None:
    assert advance(OFFSET, [found("t", 0, end=5), found("t", 1, end=3)]) is OFFSET
    assert advance(OFFSET, []) is OFFSET


def test_a_partition_that_was_not_planned_keeps_its_offset() -> None:
    assert advance(OFFSET, [found("t", 1, end=8)]).partitions() == {at("s", 0): 0, at("t", 0): 5, at("t", 1): 8}


def test_a_new_partition_appears_at_its_log_start_and_is_read_by_the_next_batch() -> None:
    grown = [found("t", 0, end=5), found("t", 1, end=7), found("t", 2, end=40, log_start=30), found("s", 0, end=0)]

    first = advance(OFFSET, grown)
    second = advance(first, grown)

    assert list(ranges(OFFSET, first)) == []
    assert list(ranges(first, second)) == [(at("t", 2), 30, 40)]


def test_a_topic_created_again_starts_anew_at_its_log_start() -> None:
    again = TopicIdPartition("t", "id-t2", 0)

    after = advance(OFFSET, [PartitionEnd(again, log_start=0, end=3)])

    assert after.partitions() == {at("s", 0): 0, again: 0}
    assert list(ranges(OFFSET, after)) == []


def test_a_batch_reads_what_lies_between_its_offsets() -> None:
    end = advance(OFFSET, [found("t", 0, end=9), found("s", 0, end=2)])

    assert list(ranges(OFFSET, end)) == [(at("s", 0), 0, 2), (at("t", 0), 5, 9)]
    assert list(ranges(end, end)) == []
    assert list(ranges(end, OFFSET)) == []


def test_an_offset_of_another_incarnation_of_the_topic_says_nothing() -> None:
    assert OFFSET.offset_of(at("t", 1)) == 7
    assert OFFSET.offset_of(TopicIdPartition("t", "id-t2", 1)) is None
    assert OFFSET.offset_of(at("t", 2)) is None
    assert OFFSET.offset_of(at("u", 0)) is None


def test_a_checkpoint_of_another_log_is_refused() -> None:
    check_same_log(OFFSET, "c1")
    with pytest.raises(UsageError):
        check_same_log(OFFSET, "c2")


ENDS = st.lists(
    st.builds(
        lambda topic, partition, end, start: found(topic, partition, end=max(start, end), log_start=start),
        st.sampled_from(["s", "t", "u"]),
        st.integers(0, 11),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
    max_size=8,
)


@given(st.lists(ENDS, max_size=6))
def test_whatever_plans_find_no_partition_goes_backwards_or_disappears_and_reads_join_up(
    plans: list[list[PartitionEnd]],
) -> None:
    current = OFFSET
    read = dict(OFFSET.partitions())
    for plan in plans:
        following = advance(current, plan)
        for partition, first, last in ranges(current, following):
            assert read[partition] == first
            read[partition] = last
        before, after = current.partitions(), following.partitions()
        assert all(after[partition] >= offset for partition, offset in before.items())
        read.update({partition: offset for partition, offset in after.items() if partition not in before})
        assert read == after
        assert parse_offset(following.to_json()) == following
        current = following


# Fingerprints ---------------------------------------------------------------------------------------------------------


def test_a_replay_has_the_fingerprint_of_the_first_run() -> None:
    assert fingerprint(["1", None], ["2", '{"a":1,"b":2}']) == fingerprint(["1", None], ["2", '{"b": 2, "a": 1}'])


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        (["1", None], ["2", '{"a":1,"b":3}']),
        (["0", None], ["2", '{"a":1,"b":2}']),
        (["1", "null"], ["2", '{"a":1,"b":2}']),
        ([None, "1"], ["2", '{"a":1,"b":2}']),
        (["1", None], ['{"a":1,"b":2}', "2"]),
        (["1"], ["2", '{"a":1,"b":2}']),
        (["1", None], ["2", "not json"]),
        (["1", None], ["2", '"not json"']),
        (["1", None], ["2", None]),
    ],
)
def test_any_other_input_has_another_fingerprint(starts: list[str | None], ends: list[str | None]) -> None:
    assert fingerprint(starts, ends) != fingerprint(["1", None], ["2", '{"a":1,"b":2}'])


def test_text_that_is_no_json_is_told_apart_from_json_of_the_same_letters() -> None:
    assert fingerprint([], ["not json"]) != fingerprint([], ['"not json"'])


def test_the_fingerprint_of_an_input_never_changes_since_ledgers_hold_it() -> None:
    assert fingerprint([None], ["7"]) == "092637bf3d02b3b6d8b2a4769f18104608450b42d14165b41303ce8bf2970924"
