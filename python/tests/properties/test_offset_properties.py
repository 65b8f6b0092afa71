"""The offset of the source: its text round trips and is one for equal offsets, and plans only move it forward."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog.batches.fingerprint import fingerprint
from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.spark.offsets import (
    PartitionEnd,
    SourceOffset,
    TopicOffsets,
    advance,
    is_source_offset,
    parse_offset,
    ranges,
)
from oncelog.types import TopicIdPartition
from tests.support import strategies

names = strategies.names()
positions = strategies.integers(0)
source_offsets = st.builds(
    SourceOffset,
    names,
    st.none() | names,
    st.dictionaries(
        names, st.builds(TopicOffsets, names, st.dictionaries(st.integers(0, 10**6), positions, max_size=4)), max_size=3
    ),
)


def shuffled(data: st.DataObject, value: Any) -> Any:
    """The same JSON with its names in another order."""
    if not isinstance(value, dict):
        return value
    return {key: shuffled(data, value[key]) for key in data.draw(st.permutations(list(value)))}


@given(source_offsets)
def test_an_offset_comes_back_from_its_text_and_from_the_object_that_spark_makes_of_it(offset: SourceOffset) -> None:
    text = offset.to_json()

    assert is_source_offset(text)
    assert parse_offset(text) == offset
    assert parse_offset(json.loads(text)) == offset
    assert parse_offset(text).to_json() == text


@given(st.data(), source_offsets)
def test_equal_offsets_have_one_text_and_one_fingerprint_in_whatever_order_they_were_made(
    data: st.DataObject, offset: SourceOffset
) -> None:
    other = json.dumps(shuffled(data, offset.to_dict()), indent=data.draw(st.sampled_from([None, 1])))

    assert parse_offset(other).to_json() == offset.to_json()
    assert fingerprint([None], [other]) == fingerprint([None], [offset.to_json()])


@given(source_offsets, source_offsets)
def test_offsets_have_one_text_only_if_they_are_equal(one: SourceOffset, other: SourceOffset) -> None:
    assert (one.to_json() == other.to_json()) == (one == other)


@given(source_offsets)
def test_partitions_stand_in_the_text_by_topic_and_number(offset: SourceOffset) -> None:
    topics = json.loads(offset.to_json())["topics"]

    assert list(topics) == sorted(topics)
    assert all([*map(int, topic["offsets"])] == sorted(map(int, topic["offsets"])) for topic in topics.values())


FIELDS = st.sampled_from(["version", "cluster_id", "group_id", "topics", "id", "0"])
leaves = (
    st.none() | st.booleans() | st.integers() | strategies.integers() | strategies.floats() | strategies.any_texts(4)
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=8
)


@given(trees)
def test_any_json_is_an_offset_or_is_refused(found: Any) -> None:
    text = json.dumps(found)
    try:
        offset = parse_offset(text)
    except (CorruptDataError, UnsupportedFormatError):
        return
    assert json.loads(offset.to_json()) == found


ends = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)
    ).map(lambda drawn: PartitionEnd(TopicIdPartition(*drawn[:3]), min(drawn[3:]), max(drawn[3:]))),
    max_size=6,
)


@given(st.lists(ends, max_size=6))
def test_what_batches_read_is_every_position_once_from_where_a_partition_appeared(
    plans: list[list[PartitionEnd]],
) -> None:
    offset = SourceOffset("c", None)
    read: dict[TopicIdPartition, list[int]] = {}
    appeared: dict[TopicIdPartition, int] = {}
    for plan in plans:
        after = advance(offset, plan)
        for partition, start, end in ranges(offset, after):
            read.setdefault(partition, []).extend(range(start, end))
        gone = offset.partitions().keys() - after.partitions().keys()
        for partition in gone:  # its topic was created again
            read.pop(partition, None)
            appeared.pop(partition, None)
        for partition, position in after.partitions().items():
            appeared.setdefault(partition, position)
        offset = after

    for partition, position in offset.partitions().items():
        assert read.get(partition, []) == list(range(appeared[partition], position))
