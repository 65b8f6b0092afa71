"""The values of the vocabulary: equality, order, text, and ranges."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from oncelog import types
from oncelog.types import (
    Block,
    BlockSlice,
    ConsumerRecord,
    IsolationLevel,
    OffsetAndMetadata,
    ProducerIdAndEpoch,
    RecordMetadata,
    TopicIdPartition,
    TopicPartition,
)

BLOCK = Block("data/a.avro", 16, 100, 0xFFFF_FFFF, 10, 1, 2)
EXAMPLES = [
    TopicPartition("flights", 3),
    TopicIdPartition("flights", "id-1", 3),
    ProducerIdAndEpoch(1000, 2),
    OffsetAndMetadata(7),
    RecordMetadata("flights", 3, 7, 1),
    ConsumerRecord("flights", 3, 7, 1, None, None, (("source", None),)),
    BLOCK,
    BlockSlice(BLOCK, 100, 2, 5),
]


def name_of(example: object) -> str:
    return type(example).__name__


def test_every_value_type_has_an_example_here() -> None:
    defined = {kind for kind in vars(types).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}

    assert defined == {type(example) for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_a_value_cannot_be_changed(example: Any) -> None:
    first_field = dataclasses.fields(example)[0].name

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example, first_field, None)


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_a_value_is_equal_and_hashed_by_its_fields_in_every_process(example: Any) -> None:
    arrived = pickle.loads(pickle.dumps(example))

    assert arrived is not example
    assert {arrived} == {example}


def test_partitions_sort_by_topic_then_by_number() -> None:
    partitions = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]

    assert [str(partition) for partition in sorted(partitions)] == ["a-9", "a-10", "b-0"]


def test_a_recreated_topic_is_another_partition_under_the_same_name() -> None:
    old, new = TopicIdPartition("flights", "id-1", 0), TopicIdPartition("flights", "id-2", 0)

    assert old != new
    assert old.topic_partition == new.topic_partition == TopicPartition("flights", 0)
    assert str(old) == str(new) == "flights-0"


def test_a_later_epoch_of_a_producer_id_sorts_later() -> None:
    assert ProducerIdAndEpoch(7, 9) < ProducerIdAndEpoch(7, 10) < ProducerIdAndEpoch(8, 0)
    assert str(ProducerIdAndEpoch(7, 10)) == "7.10"


def test_an_isolation_level_is_its_option_value() -> None:
    assert IsolationLevel("read_committed") is IsolationLevel.READ_COMMITTED
    assert f"{IsolationLevel.READ_UNCOMMITTED}" == "read_uncommitted"


def test_sequences_and_epochs_fit_kafkas_signed_fields() -> None:
    assert types.MAX_SEQUENCE.bit_length() == 31
    assert types.MAX_PRODUCER_EPOCH.bit_length() == 15


def test_a_slice_counts_a_half_open_range() -> None:
    assert BlockSlice(BLOCK, 100, 2, 5).count == 3
    assert BlockSlice(BLOCK, 100, 5, 5).count == 0
    assert BlockSlice(BLOCK, 100, 0, BLOCK.count).count == BLOCK.count
