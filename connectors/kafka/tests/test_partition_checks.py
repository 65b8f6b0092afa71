"""What the leaders of partitions say about a batch's transactions, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.types import TopicIdPartition
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.participants import Participant, ProducerIdAndEpoch, Transaction
from oncelog_kafka.protocol.ports import PartitionState, PartitionStates
from oncelog_kafka.sinks.partition_checks import find_changed, find_ended, of_transactions

OURS, OTHER = ProducerIdAndEpoch(7, 3), ProducerIdAndEpoch(8, 0)
BILLS = TopicIdPartition("my-bills", "lq4oRWcCQ0uYzV8JjwT5bg", 4)
PLACE, GROUPS = ("my-bills", 4), ("__consumer_offsets", 12)

PARTICIPANT = Participant("p-0-1.0.0", 0, *OURS, 2, 10, 0, "my-bills")
OPEN = Transaction("p-0-1.0.0", "Ongoing", *OURS, 60_000, 0, ("__consumer_offsets-12", "my-bills-4"))
SOUND: PartitionStates = {PLACE: PartitionState({OTHER: 90, OURS: 100}, 5), GROUPS: PartitionState({OURS: 7})}


def changed(states: PartitionStates) -> str | None:
    written = {"p-0-1.0.0": {BILLS: Extent(100, 120)}}
    return find_changed([PARTICIPANT], written, {"p-0-1.0.0": OPEN}, states).get("p-0-1.0.0")


def test_the_partitions_of_a_transaction_are_those_of_its_rows_and_of_its_offsets() -> None:
    assert of_transactions([OPEN]) == {PLACE, GROUPS}


def test_a_transaction_that_is_open_from_its_first_row_on_may_be_committed() -> None:
    assert changed(SOUND) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (PartitionState({OTHER: 100}), "was ended in my-bills-4, by a tool of Kafka"),
        (PartitionState({OURS._replace(epoch=2): 100}), "was ended in my-bills-4, by a tool of Kafka"),
        (PartitionState({OURS: 111}), "was ended in my-bills-4, by a tool of Kafka"),
        (PartitionState({OURS: 100}, 101), "rows in my-bills-4 were deleted"),
        ("OFFSET_OUT_OF_RANGE", "the log of my-bills-4 no longer has its rows"),
        ("UNKNOWN_TOPIC_ID", "the topic of my-bills-4 was deleted"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "the topic of my-bills-4 was deleted"),
        ("INVALID_REQUEST", "my-bills-4 does not describe it (INVALID_REQUEST)"),
    ],
)
def test_what_changed_in_a_partition_with_rows_is_a_reason_not_to_decide(
    state: PartitionState | str, reason: str
) -> None:
    assert reason in str(changed({**SOUND, PLACE: state}))


def test_offsets_that_were_aborted_are_a_reason_not_to_decide() -> None:
    assert "was ended in __consumer_offsets-12" in str(changed({**SOUND, GROUPS: PartitionState({OTHER: 1})}))


def test_a_user_that_may_not_describe_the_partitions_of_groups_may_decide() -> None:
    assert changed({**SOUND, GROUPS: "TOPIC_AUTHORIZATION_FAILED"}) is None


def test_after_the_decision_the_partitions_that_lost_the_transaction_are_named() -> None:
    states: PartitionStates = {PLACE: PartitionState({OTHER: 90}), GROUPS: PartitionState({OURS: 7})}

    assert find_ended([PARTICIPANT], {"p-0-1.0.0": OPEN}, states) == {"p-0-1.0.0": ["my-bills-4"]}
    assert find_ended([PARTICIPANT], {"p-0-1.0.0": OPEN}, SOUND) == {}


@pytest.mark.parametrize(
    ("participant", "transaction"),
    [
        (PARTICIPANT, replace(OPEN, state="PrepareCommit")),
        (PARTICIPANT, replace(OPEN, state="CompleteCommit", epoch=4)),
        (replace(PARTICIPANT, transaction_version=1), OPEN),
    ],
)
def test_a_transaction_that_may_have_been_committed_is_not_called_ended(
    participant: Participant, transaction: Transaction
) -> None:
    states: PartitionStates = {PLACE: PartitionState({}), GROUPS: PartitionState({})}

    assert find_ended([participant], {"p-0-1.0.0": transaction}, states) == {}
