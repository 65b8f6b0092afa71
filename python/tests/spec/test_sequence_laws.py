"""The laws of a partition on sequences, epochs and duplicates."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidTxnStateError, OutOfOrderSequenceError, ProducerFencedError
from oncelog.protocol.sequencing import (
    Accept,
    Duplicate,
    ProducerEntry,
    after_append,
    check_append,
)
from oncelog.types import MAX_SEQUENCE, ProducerIdAndEpoch

PRODUCER = ProducerIdAndEpoch(7, 2)
OWNER = "/transactions/copier/7.2"


class Partition:
    """One partition's memory of one producer id, and its log end."""

    def __init__(self) -> None:
        self.entry: ProducerEntry | None = None
        self.log_end = 0

    def append(
        self, base_sequence: int, count: int = 1, *, producer: ProducerIdAndEpoch = PRODUCER, owner: str | None = None
    ) -> int:
        verdict = check_append(self.entry, producer, base_sequence, count, transactional=owner is not None)
        if isinstance(verdict, Duplicate):
            return verdict.base_offset
        assert verdict == Accept()
        offset = self.log_end
        self.entry = after_append(self.entry, producer, base_sequence, count, base_offset=offset, owner=owner)
        self.log_end += count
        return offset


def test_an_exact_duplicate_of_the_last_five_answers_the_old_offset_and_appends_nothing() -> None:
    """conformance: 22."""
    partition = Partition()
    offsets = [partition.append(number * 10, 10) for number in range(5)]

    assert [partition.append(number * 10, 10) for number in range(5)] == offsets
    assert partition.log_end == 50


def test_the_sixth_last_batch_is_out_of_order() -> None:
    """conformance: 22."""
    partition = Partition()
    for number in range(6):
        partition.append(number * 10, 10)

    assert partition.append(10, 10) == 10
    with pytest.raises(OutOfOrderSequenceError):
        partition.append(0, 10)


@pytest.mark.parametrize(("base_sequence", "count"), [(0, 9), (0, 11), (1, 9), (0, 20), (5, 10)])
def test_an_overlap_that_is_no_exact_duplicate_is_out_of_order(base_sequence: int, count: int) -> None:
    """conformance: 22."""
    partition = Partition()
    partition.append(0, 10)
    partition.append(10, 10)

    with pytest.raises(OutOfOrderSequenceError):
        partition.append(base_sequence, count)


@pytest.mark.parametrize("gap", [1, 2, 1000, MAX_SEQUENCE - 10])
def test_a_gap_is_rejected(gap: int) -> None:
    """conformance: 23."""
    partition = Partition()
    partition.append(0, 10)

    with pytest.raises(OutOfOrderSequenceError):
        partition.append(10 + gap)


def test_zero_follows_the_largest_sequence() -> None:
    """conformance: 23."""
    partition = Partition()
    partition.append(MAX_SEQUENCE - 9, 10)

    with pytest.raises(OutOfOrderSequenceError):
        partition.append(1)
    assert partition.append(0) == 10


def test_a_batch_may_straddle_the_wrap_around_and_is_its_own_duplicate() -> None:
    """conformance: 22, 23."""
    partition = Partition()
    partition.append(MAX_SEQUENCE - 1, 5)

    assert partition.append(MAX_SEQUENCE - 1, 5) == 0
    with pytest.raises(OutOfOrderSequenceError):
        partition.append(0)
    assert partition.append(3) == 5


def test_a_new_epoch_begins_at_zero() -> None:
    """conformance: 24."""
    partition = Partition()
    partition.append(0, 10)
    newer = ProducerIdAndEpoch(7, 3)

    with pytest.raises(OutOfOrderSequenceError):
        partition.append(10, producer=newer)
    assert partition.append(0, producer=newer) == 10


@pytest.mark.parametrize("base_sequence", [0, 10, 11])
def test_a_lower_epoch_is_fenced_before_anything_else_is_looked_at(base_sequence: int) -> None:
    """conformance: 24."""
    partition = Partition()
    partition.append(0, 10)
    partition.append(0, 10, producer=ProducerIdAndEpoch(7, 3), owner=OWNER)

    with pytest.raises(ProducerFencedError) as fenced:
        partition.append(base_sequence, 10)
    assert fenced.value.fields == {"producer": "7.2", "epoch": 3}


def test_a_transactional_producer_without_state_begins_at_zero() -> None:
    """conformance: 24."""
    partition = Partition()

    with pytest.raises(OutOfOrderSequenceError):
        partition.append(4, owner=OWNER)
    assert partition.append(0, owner=OWNER) == 0


def test_an_idempotent_producer_whose_state_expired_goes_on_where_it_was() -> None:
    """conformance: 34."""
    partition = Partition()
    partition.append(0, 10)
    partition.entry = None

    assert partition.append(10, 10) == 10
    assert partition.append(20) == 20
    with pytest.raises(OutOfOrderSequenceError):
        partition.append(22)


def test_a_write_outside_of_the_open_transaction_is_an_invalid_state() -> None:
    """conformance: 32."""
    partition = Partition()
    partition.append(0, owner=OWNER)

    with pytest.raises(InvalidTxnStateError) as refused:
        partition.append(1)
    assert refused.value.fields["owner"] == OWNER
    assert partition.append(1, owner=OWNER) == 1


def test_a_retry_of_a_transactional_batch_finds_itself_also_after_the_wrap_around() -> None:
    """conformance: 22, 23."""
    partition = Partition()
    partition.append(0, MAX_SEQUENCE, owner=OWNER)
    base = partition.append(MAX_SEQUENCE, 2, owner=OWNER)

    assert partition.append(MAX_SEQUENCE, 2, owner=OWNER) == base
