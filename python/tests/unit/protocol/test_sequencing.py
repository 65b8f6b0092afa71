"""What a partition remembers of a producer, and the arithmetic of sequences."""

from __future__ import annotations

import pytest

from oncelog.errors import InvariantViolation, OutOfOrderSequenceError
from oncelog.protocol.sequencing import (
    AppendedBatch,
    ProducerEntry,
    after_append,
    after_marker,
    check_append,
    sequence_add,
    sequence_distance,
)
from oncelog.types import MAX_SEQUENCE, NO_SEQUENCE, ProducerIdAndEpoch

PRODUCER = ProducerIdAndEpoch(7, 2)
OPEN = ProducerEntry(2, (AppendedBatch(0, 3, 10),), open_first_offset=10, open_owner="/t/7.2")


@pytest.mark.parametrize(
    ("start", "count", "end"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (5, 10, 15),
        (MAX_SEQUENCE, 1, 0),
        (MAX_SEQUENCE, 3, 2),
        (MAX_SEQUENCE - 1, 1, MAX_SEQUENCE),
    ],
)
def test_sequences_count_up_and_wrap_to_zero(start: int, count: int, end: int) -> None:
    assert sequence_add(start, count) == end
    assert sequence_distance(start, end) == count


def test_a_straddling_batch_ends_below_its_first_sequence() -> None:
    assert AppendedBatch(MAX_SEQUENCE - 1, 4, 0).last_sequence == 1


def test_before_its_first_batch_an_entry_has_no_last_sequence() -> None:
    assert ProducerEntry(3).last_sequence == NO_SEQUENCE


def test_an_entry_keeps_the_newest_five_batches() -> None:
    entry = None
    for number in range(7):
        entry = after_append(entry, PRODUCER, number * 2, 2, base_offset=100 + number, owner=None)

    assert entry is not None
    assert [batch.base_offset for batch in entry.batches] == [102, 103, 104, 105, 106]
    assert entry.last_sequence == 13


def test_the_first_offset_of_the_open_transaction_stays_with_its_first_batch() -> None:
    entry = after_append(OPEN, PRODUCER, 3, 2, base_offset=20, owner="/t/7.2")

    assert (entry.open_first_offset, entry.open_owner) == (10, "/t/7.2")


def test_a_new_epoch_forgets_the_batches_and_the_transaction_of_the_old_one() -> None:
    entry = after_append(OPEN, ProducerIdAndEpoch(7, 3), 0, 1, base_offset=30, owner="/t/7.3")

    assert entry == ProducerEntry(3, (AppendedBatch(0, 1, 30),), open_first_offset=30, open_owner="/t/7.3")


def test_two_owners_under_one_epoch_are_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="one transaction"):
        after_append(OPEN, PRODUCER, 3, 1, base_offset=20, owner="/t/other")


def test_a_marker_closes_the_transaction_it_names_and_keeps_the_duplicates() -> None:
    """conformance: 33."""
    closed = after_marker(OPEN, "/t/7.2")

    assert closed == ProducerEntry(2, OPEN.batches)
    assert after_marker(closed, "/t/7.2") is closed


def test_a_late_marker_leaves_the_next_transaction_open() -> None:
    """conformance: 33."""
    following = after_append(OPEN, ProducerIdAndEpoch(7, 3), 0, 1, base_offset=30, owner="/t/7.3")

    assert after_marker(following, "/t/7.2") is following


@pytest.mark.parametrize(("base_sequence", "count"), [(-1, 1), (MAX_SEQUENCE + 1, 1), (0, 0), (0, -3)])
def test_a_batch_that_cannot_be_is_a_bug_not_a_verdict(base_sequence: int, count: int) -> None:
    with pytest.raises(InvariantViolation):
        check_append(None, PRODUCER, base_sequence, count, transactional=False)


@pytest.mark.parametrize(
    "fields", [{"open_first_offset": 3}, {"open_owner": "/t/7.2"}, {"batches": (AppendedBatch(0, 1, 0),) * 6}]
)
def test_an_entry_that_cannot_be_is_refused_when_it_is_read(fields: dict[str, object]) -> None:
    with pytest.raises(InvariantViolation):
        ProducerEntry(2, **fields)  # type: ignore[arg-type]


def test_a_gap_is_told_with_both_sequences() -> None:
    with pytest.raises(OutOfOrderSequenceError) as refused:
        check_append(OPEN, PRODUCER, 9, 1, transactional=True)

    assert refused.value.fields == {"producer": "7.2", "epoch": 2, "base_sequence": 9, "expected": 3}
