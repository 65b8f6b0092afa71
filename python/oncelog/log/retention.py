"""Retention: moves the log start past old entries. collection.py removes their files later.

The log start must never move past the first offset of an unsettled owner (invariant I11), nor past the log end. Records
are removed in whole record batches, and a marker is removed with the record batch after it, or if a caller of
`delete_records` names an offset after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from oncelog.errors import OffsetOutOfRangeError
from oncelog.log import partition_reads
from oncelog.log.index import PartitionIndex
from oncelog.log.index_files import IndexFiles
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol.partition import IndexEntry, PartitionState, TailNode, TopicState
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads

NODES_PER_STEP = 500
"""Tail nodes that one step removes: about half of limits.MULTI_MAX_OPS."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What retention removed from one partition, and the new log start."""

    partition: TopicIdPartition
    log_start: int
    records: int
    size_bytes: int


def enforce(
    store: ZnodeStore,
    files: IndexFiles,
    partition: TopicIdPartition,
    topic: TopicState,
    now_ms: int,
    *,
    dry_run: bool = False,
) -> Removed | None:
    """Apply the topic's retention to one partition.

    Args:
        now_ms: the current time, compared with the records' timestamps.
        dry_run: return what would be removed, and change nothing.

    Returns:
        what was removed; None if nothing was.
    """

    def find(state: PartitionState, index: PartitionIndex) -> _Going:
        entries = index.entries(files, state.log_start, removable_end(state))
        return _Going(_outlived(state, entries, topic, now_ms), index.tail)

    state, going = partition_reads.walk_index(store, partition, find)
    return _removed(partition, going.entries) if dry_run else _move_log_start(store, partition, state, going)


def _outlived(state: PartitionState, entries: Iterable[IndexEntry], topic: TopicState, now_ms: int) -> list[IndexEntry]:
    """The oldest entries that the topic's retention allows to be removed."""
    going: list[IndexEntry] = []
    excess_bytes = state.size_bytes - topic.retention_bytes if topic.retention_bytes is not None else 0
    horizon_ms = now_ms - topic.retention_ms if topic.retention_ms is not None else -1
    for entry in entries:
        size_bytes = entry.block.length if entry.block else 0
        is_old = entry.block is not None and entry.block.max_timestamp_ms < horizon_ms
        if entry.block is not None and not is_old and excess_bytes < size_bytes:
            break
        if entry.end_offset > removable_end(state):
            break
        excess_bytes -= size_bytes
        going.append(entry)
    # A reader of all these records may have its position before the markers after them, so keep these markers.
    while going and going[-1].block is None:
        going.pop()
    return going


def delete_records(
    store: ZnodeStore, files: IndexFiles, partition: TopicIdPartition, before_offset: int
) -> Removed | None:
    """Move the log start to `before_offset`, or as far towards it as unsettled data allows.

    Raises:
        OffsetOutOfRangeError: the offset is below the log start or above the log end.
    """

    def find(state: PartitionState, index: PartitionIndex) -> _Going:
        check_within(state, partition, before_offset)
        end = min(before_offset, removable_end(state))
        entries = index.entries(files, state.log_start, end)
        return _Going([entry for entry in entries if entry.end_offset <= end], index.tail)

    state, going = partition_reads.walk_index(store, partition, find)
    return _move_log_start(store, partition, state, going)


def check_within(state: PartitionState, partition: TopicIdPartition, offset: int) -> None:
    """Raise an OffsetOutOfRangeError if the offset is below the log start or above the log end."""
    if not state.log_start <= offset <= state.log_end:
        raise OffsetOutOfRangeError(
            "the offset is not within the log",
            partition=str(partition),
            offset=offset,
            log_start=state.log_start,
            log_end=state.log_end,
        )


def removable_end(state: PartitionState) -> int:
    """The offset at which unsettled data begins, or the log end. Nothing from here on may be removed."""
    return min((span.first for span in state.owners), default=state.log_end)


class _Going(NamedTuple):
    """What to remove from a partition: its oldest entries, and the tail of its index, some nodes of which hold them."""

    entries: Sequence[IndexEntry]
    tail: Sequence[TailNode]

    def pieces(self) -> Iterator[Sequence[IndexEntry]]:
        """The entries, in pieces for steps of bounded size: a tail that could not be rolled (full disk) is long."""
        first = 0
        for node in self.tail[NODES_PER_STEP - 1 :: NODES_PER_STEP]:
            behind = bisect_right(self.entries, node.end_offset, key=lambda entry: entry.end_offset)
            if behind > first:
                yield self.entries[first:behind]
                first = behind
        if first < len(self.entries):
            yield self.entries[first:]


class _Totals(NamedTuple):
    """Totals of consecutive entries, and the offset at which they end."""

    end: int
    records: int
    size_bytes: int


def _move_log_start(
    store: ZnodeStore, partition: TopicIdPartition, seen: PartitionState, going: _Going
) -> Removed | None:
    """Move the log start past these entries. Stop if another process moves it meanwhile; the next run continues."""
    gone: list[IndexEntry] = []
    log_start = seen.log_start
    for piece in going.pieces():
        # The totals are computed before the step: a slow step conflicts with every append.
        step = partial(_remove, partition=partition, log_start=log_start, piece=_totals(piece), tail=going.tail)
        if not store.transact(step):
            break
        log_start = piece[-1].end_offset
        gone += piece
    return _removed(partition, gone)


def _remove(
    view: ZnodeView,
    *,
    partition: TopicIdPartition,
    log_start: int,
    piece: _Totals,
    tail: Sequence[TailNode],
) -> bool:
    """Remove the entries of `piece`, which begin at `log_start`; returns False if the log start is another one by now.

    A busy writer may roll the tail faster than a long index is walked over, so some nodes of `tail` may be gone.
    """
    state = partition_reads.read_partition(view, partition)
    end = piece.end
    if state.log_start != log_start or removable_end(state) < end:
        return False
    known = [paths.tail_node(partition, node.base_offset) for node in tail if log_start < node.end_offset <= end]
    nodes = [path for path, node in zip(known, view.get_many(known), strict=True) if node is not None]
    for path in nodes:
        view.delete(path)
    moved = replace(
        state,
        log_start=end,
        roots=tuple(ref for ref in state.roots if ref.end > end),
        tail_nodes=state.tail_nodes - len(nodes),
        size_bytes=state.size_bytes - piece.size_bytes,
    )
    view.set(paths.partition(partition), payloads.encode_partition(moved))
    return True


def _removed(partition: TopicIdPartition, gone: Sequence[IndexEntry]) -> Removed | None:
    if not gone:
        return None
    return Removed(partition, *_totals(gone))


def _totals(gone: Sequence[IndexEntry]) -> _Totals:
    blocks = [entry.block for entry in gone if entry.block]
    return _Totals(gone[-1].end_offset, sum(block.count for block in blocks), sum(block.length for block in blocks))
