"""What a reader may see: the last stable offset of each partition of a plan, and which blocks are hidden.

Everything that an owner wrote, in any number of partitions, changes visibility with the one write that decides the
owner. A *plan* over a set of partitions shows all of a transaction or nothing of it.

How a plan is read (the caller does the I/O, in one session):

1. S := the mzxid of ``/commits``, which every deciding write sets.
2. Read the partitions, then every owner that they list.
3. If the `trim` of any partition is above S, a settler overtook the reader: start over.
4. Call `plan`.

Why a plan is consistent. Assumptions: zxids grow with time. The outcome of a decided owner never changes. Only settling
removes an owner's span from a partition; it sets trim to a value of ``/commits`` that it read first of all, and only
settles owners that were decided by then. Hence, for an owner T with decision d: if d <= S, all appends of T happened
before the partitions were read, so its spans are complete, or settled. If d > S, T is still listed wherever it wrote,
or trim > S. So T is shown completely or not at all.

Pure: without I/O. Tests compare it with a naive model, over all interleavings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.protocol.partition import IndexEntry, OwnerSpan, OwnerState, PartitionState
from oncelog.types import IsolationLevel, Outcome, ProducerIdAndEpoch

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Plan(Generic[P]):
    """A consistent view over partitions.

    Attributes:
        snapshot_zxid: S.
        ends: the last stable offset of each partition, for a read_committed reader of all of them together.
        visible: committed owners, which are shown completely.
        gone: aborted owners.
        blockers: for each partition whose LSO is below its log end, the owner that holds it back.
    """

    snapshot_zxid: int
    ends: Mapping[P, int]
    visible: frozenset[str]
    gone: frozenset[str]
    blockers: Mapping[P, str]


def is_overtaken(snapshot_zxid: int, partitions: Iterable[PartitionState]) -> bool:
    """Whether a settler used a newer value of ``/commits`` than this reader, which must then start over."""
    return any(partition.trim > snapshot_zxid for partition in partitions)


def plan(snapshot_zxid: int, partitions: Mapping[P, PartitionState], owners: Mapping[str, OwnerState]) -> Plan[P]:
    """The last stable offsets of `partitions`, planned together.

    Args:
        snapshot_zxid: mzxid of ``/commits``, read before the partitions.
        partitions: read afterwards, and not `is_overtaken`.
        owners: all owners that `partitions` list, read after them.
    """
    decided = {name: state.outcome for name, state in owners.items() if state.decided_zxid <= snapshot_zxid}
    gone = frozenset(name for name, outcome in decided.items() if outcome is Outcome.ABORT)
    visible = {name for name, outcome in decided.items() if outcome is Outcome.COMMIT}
    while True:
        blocking = {key: _first_blocking(state, visible, gone) for key, state in partitions.items()}
        ends = {key: span.first if span else partitions[key].log_end for key, span in blocking.items()}
        torn = _reaching_past(partitions, ends, visible)
        if not torn:
            blockers = {key: span.owner for key, span in blocking.items() if span}
            return Plan(snapshot_zxid, ends, frozenset(visible), gone, blockers)
        visible -= torn


def _first_blocking(state: PartitionState, visible: set[str], gone: frozenset[str]) -> OwnerSpan | None:
    blocking = (span for span in state.owners if span.owner not in visible and span.owner not in gone)
    return min(blocking, key=lambda span: span.first, default=None)


def _reaching_past(partitions: Mapping[P, PartitionState], ends: Mapping[P, int], visible: set[str]) -> set[str]:
    """Committed owners that reach past the end of some partition: they are held back in all partitions."""
    return {
        span.owner
        for key, state in partitions.items()
        for span in state.owners
        if span.owner in visible and span.last >= ends[key]
    }


def is_shown(
    entry: IndexEntry,
    isolation: IsolationLevel,
    owners: Mapping[str, OwnerState],
    aborted: frozenset[ProducerIdAndEpoch],
) -> bool:
    """Whether a reader gets the records of `entry`, which is below the end of its plan. Never for control markers.

    Args:
        owners: the states of the owners that the partition lists.
        aborted: for settled owners, the aborted pairs of the markers whose ranges overlap the range to read.
    """
    if entry.block is None:
        return False
    if isolation is IsolationLevel.READ_UNCOMMITTED or entry.owner is None:
        return True
    return outcome_of(entry, owners, aborted) is Outcome.COMMIT


def outcome_of(
    entry: IndexEntry, owners: Mapping[str, OwnerState], aborted: frozenset[ProducerIdAndEpoch]
) -> Outcome | None:
    """The outcome for the records of `entry`; None outside of a transaction. Arguments as for `is_shown`."""
    if entry.owner is None:
        return None
    state = owners.get(entry.owner)
    if state is not None:
        return state.outcome_for(entry.producer)
    return Outcome.ABORT if entry.producer in aborted else Outcome.COMMIT


def aborted_pairs(entries: Iterable[IndexEntry]) -> frozenset[ProducerIdAndEpoch]:
    """The (producer id, epoch) pairs that the markers among `entries` declare aborted."""
    return frozenset(pair for entry in entries if entry.marker for pair in entry.marker.aborted)


def losing_pairs(span: OwnerSpan, state: OwnerState) -> tuple[ProducerIdAndEpoch, ...]:
    """The pairs of a decided owner's span whose data is aborted, for its marker."""
    return tuple(pair for pair in span.producers if state.outcome_for(pair) is not Outcome.COMMIT)
