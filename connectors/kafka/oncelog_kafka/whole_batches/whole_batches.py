"""How far a reader may read so that it sees all rows of a batch or none. Pure.

A reader has *ends*: an offset for each partition. Ends *cut* a batch if some of its rows lie before them, and others do
not, or are not visible yet. The ends that cut no batch form a lattice: of two such ends, the lower offset in each
partition, and the higher one, cut none either. So there are last ends below given ones, and first ends above them.

What a reader has read counts as gone: of a batch that the starts cut, only the rest is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.types import TopicIdPartition
from oncelog_kafka.protocol.extents import Batch, Extent, Extents

Offsets = Mapping[TopicIdPartition, int]


def last_ends(batches: Iterable[Batch], starts: Offsets, stable: Offsets) -> dict[TopicIdPartition, int]:
    """The last ends that cut no batch.

    Args:
        batches: of the ledger, which was read after `stable` was asked for.
        starts: where the reader is, for each partition that it reads.
        stable: up to where each partition has no open transaction; at least at its start.
    """
    ends = dict(stable)
    ahead = [(left, batch.is_over) for batch in batches if (left := _left(batch, starts))]
    while sum(_lower(left, ends, is_over=is_over) for left, is_over in ahead):
        pass
    return ends


def limited_ends(
    batches: Iterable[Batch], starts: Offsets, wanted: Offsets, last: Offsets
) -> dict[TopicIdPartition, int]:
    """Ends that cut no batch and lie before `wanted`; behind it, if otherwise nothing could be read.

    Args:
        batches: of the ledger. Since `last` was found, some may have been merged.
        starts: see `last_ends`.
        wanted: how far a limit lets the reader go, at most to `last`.
        last: what `last_ends` found.
    """
    found = list(batches)
    before = last_ends(found, starts, wanted)
    if before != dict(starts):
        return before
    ends = dict(wanted)
    ahead = [left for batch in found if (left := _left(batch, starts))]
    while sum(_raise(left, ends) for left in ahead):
        pass
    return {partition: min(end, last[partition]) for partition, end in ends.items()}


def _left(batch: Batch, starts: Offsets) -> Extents:
    """Where the rows of a batch are that a reader has not read yet."""
    return {
        partition: Extent(max(first, starts[partition]), last)
        for partition, (first, last) in batch.extents.items()
        if partition in starts and last >= starts[partition]
    }


def _is_before(extents: Extents, ends: Offsets) -> bool:
    """Whether all of it lies before the ends."""
    return all(extent.last < ends[partition] for partition, extent in extents.items())


def _lower(extents: Extents, ends: dict[TopicIdPartition, int], *, is_over: bool) -> bool:
    """Move the ends before a batch that is not over, or not wholly before them; returns whether they moved."""
    if is_over and _is_before(extents, ends):
        return False
    above = [partition for partition, extent in extents.items() if extent.first < ends[partition]]
    for partition in above:
        ends[partition] = extents[partition].first
    return bool(above)


def _raise(extents: Extents, ends: dict[TopicIdPartition, int]) -> bool:
    """Move the ends behind a batch of which some lies before them; returns whether they moved."""
    if _is_before(extents, ends) or all(extent.first >= ends[partition] for partition, extent in extents.items()):
        return False
    for partition, extent in extents.items():
        ends[partition] = max(ends[partition], extent.last + 1)
    return True
