"""What a reader may see: the last stable offset of every partition of a plan, and which blocks are dropped.

One owner, one flip: everything an owner wrote, in however many partitions, changes visibility with the one write that
decides its znode. A *plan* is a snapshot over a set of partitions that contains all of a transaction or none of it.

How a plan is read (the caller does the I/O, in one session):

1. S := mzxid of ``/commits``, which every deciding write sets.
2. Read the partitions, then each owner they list.
3. If any partition's `trim` is above S, a settler overtook the reader: start over.
4. `plan` below.

Why it holds. Assumptions: zxids grow with time; an owner's outcome never changes once decided; an owner's span leaves
a partition only through a settle, which sets trim to a snapshot of ``/commits`` taken before it read anything and
settles only owners decided by then. For an owner T with decision d, hence: d <= S means every append of T happened
before the partitions were read, so its spans are complete or settled; d > S means T is still listed wherever it wrote,
or trim > S. T is therefore seen whole or held back whole.

Pure: no I/O, and the whole interleaving argument is tested against a naive model.
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
        ends: last stable offset per partition: a read_committed reader of all these partitions together ends here.
        visible: committed owners that are shown whole.
        gone: owners decided as aborted.
        blockers: per partition whose LSO is below its log end, the owner that holds it back.
    """

    snapshot_zxid: int
    ends: Mapping[P, int]
    visible: frozenset[str]
    gone: frozenset[str]
    blockers: Mapping[P, str]


def is_overtaken(snapshot_zxid: int, partitions: Iterable[PartitionState]) -> bool:
    """Whether a settler used a younger snapshot than this reader, who must then start over."""
    return any(partition.trim > snapshot_zxid for partition in partitions)


def plan(snapshot_zxid: int, partitions: Mapping[P, PartitionState], owners: Mapping[str, OwnerState]) -> Plan[P]:
    """The last stable offsets of `partitions`, planned together.

    Args:
        snapshot_zxid: mzxid of ``/commits``, read before the partitions.
        partitions: read after it; none of them `is_overtaken`.
        owners: every owner listed in `partitions`, read after them.
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
    """Committed owners of which some partition would show only a part: they are held back everywhere."""
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
    """Whether a reader gets the records of `entry`, which lies below the end its plan gave it.

    Control markers are shown by neither isolation level.

    Args:
        entry: of the index.
        isolation: of the reader.
        owners: state of the owners that the partition still lists.
        aborted: the aborted pairs of the markers whose range overlaps what is read: they speak for settled owners.
    """
    if entry.block is None:
        return False
    if isolation is IsolationLevel.READ_UNCOMMITTED or entry.owner is None:
        return True
    return outcome_of(entry, owners, aborted) is Outcome.COMMIT


def outcome_of(
    entry: IndexEntry, owners: Mapping[str, OwnerState], aborted: frozenset[ProducerIdAndEpoch]
) -> Outcome | None:
    """What became of the records of `entry`; None outside any transaction. Arguments as for `is_shown`."""
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
    """The pairs of a decided owner's span whose data is dropped: what its marker must say."""
    return tuple(pair for pair in span.producers if state.outcome_for(pair) is not Outcome.COMMIT)
