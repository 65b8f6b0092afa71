"""Whether partitions still have a batch's transactions as its tasks left them. Pure.

Kafka's tools (``kafka-transactions.sh abort``, ``Admin.abortTransaction``) can end a transaction in a single
partition. Its producer and its coordinator do not hear of it: the producer's next write begins the transaction there
once more, with the same producer id and epoch, and a commit succeeds without the rows that were aborted. So only the
leader of each partition can tell whether its rows will be committed: it must have the transaction open from the first
of them on.

The same answers show whether a topic was deleted and created again, or rows were deleted, before anybody could read
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from oncelog_kafka.protocol.extents import NOWHERE, Extent, Extents
from oncelog_kafka.protocol.participants import ONGOING, OWN_EPOCH_FROM, Participant, Transaction
from oncelog_kafka.protocol.ports import PartitionState, PartitionStates

TopicPartition = tuple[str, int]

_CREATED_AGAIN = "the topic of {place} was deleted, or deleted and created again, after its rows were written"

UNKNOWN_TOPIC = frozenset({"INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION"})
"""A leader's answers if it does not have this topic, but may have another one of the same name."""

_REFUSALS: Mapping[str, str] = {
    **dict.fromkeys(UNKNOWN_TOPIC, _CREATED_AGAIN),
    "OFFSET_OUT_OF_RANGE": "the log of {place} no longer has its rows",
}
"""The reasons for answers that are no states."""


def of_transactions(found: Iterable[Transaction]) -> set[TopicPartition]:
    """The partitions that these transactions have written to, those with the offsets of groups included."""
    return {_parsed(place) for one in found for place in one.partitions}


def find_changed(
    participants: Iterable[Participant],
    written: Mapping[str, Extents],
    found: Mapping[str, Transaction],
    states: PartitionStates,
) -> dict[str, str]:
    """Which participants would lose rows or offsets if they were committed now, and why.

    Args:
        participants: that the coordinators have open.
        written: where their rows are, by transactional id.
        found: what the coordinators say about them.
        states: of all their partitions.

    Returns:
        The reasons, by transactional id; empty if the batch may be decided.
    """
    problems = {}
    for one in participants:
        rows = written.get(one.transactional_id, NOWHERE)
        reason = next(_changes(one, rows, found[one.transactional_id], states), None)
        if reason is not None:
            problems[one.transactional_id] = reason
    return problems


def find_ended(
    participants: Iterable[Participant], found: Mapping[str, Transaction], states: PartitionStates
) -> dict[str, list[str]]:
    """In which partitions the transactions of participants were ended although the coordinators have them open.

    Coordinators write markers only after they have ended a transaction. So ask them once more after the partitions: if
    one still has a transaction open, somebody else wrote the marker. That may also be the coordinator's successor, of
    which a deposed one does not know.

    Only transactions of version 2 are judged. At version 1 a late request of a committed transaction begins another one
    with the same producer id and epoch.
    """
    ended = {
        one.transactional_id: [
            place
            for place in found[one.transactional_id].partitions
            if isinstance(state := states.get(_parsed(place)), PartitionState) and one.producer not in state.opened
        ]
        for one in participants
        if one.transaction_version >= OWN_EPOCH_FROM and is_open(one, found.get(one.transactional_id))
    }
    return {name: places for name, places in ended.items() if places}


def is_open(ours: Participant, found: Transaction | None) -> bool:
    """Whether the coordinator has the participant's transaction open."""
    return found is not None and found.state == ONGOING and (found.producer_id, found.epoch) == ours.producer


def _changes(ours: Participant, rows: Extents, found: Transaction, states: PartitionStates) -> Iterator[str]:
    for partition, extent in rows.items():
        reason = _of_rows(ours, extent, str(partition), states.get((partition.topic, partition.partition)))
        if reason is not None:
            yield reason
    with_rows = {str(partition) for partition in rows}
    for place in found.partitions:
        state = states.get(_parsed(place))
        # Few users may describe the partitions of groups. Then a marker there is only noticed if the commit fails.
        if place not in with_rows and isinstance(state, PartitionState) and ours.producer not in state.opened:
            yield f"its transaction was ended in {place}, by a tool of Kafka"


def _of_rows(ours: Participant, extent: Extent, place: str, state: PartitionState | str | None) -> str | None:
    if not isinstance(state, PartitionState):
        return _REFUSALS.get(str(state), "the leader of {place} does not describe it ({state})").format(
            place=place, state=state
        )
    if state.opened.get(ours.producer) != extent.first:
        return f"its transaction was ended in {place}, by a tool of Kafka"
    if state.log_start > extent.first:
        return f"rows in {place} were deleted before they were committed"
    return None


def _parsed(place: str) -> TopicPartition:
    topic, _, number = place.rpartition("-")
    return topic, int(number)
