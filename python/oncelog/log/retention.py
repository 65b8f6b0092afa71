"""Retention: moves the log start over old entries. Files go later (collection.py).

Never moves past the first offset of an unsettled owner (invariant I11), nor past the log end; a record goes when its
whole record batch may go, and a marker with the record batch behind it or where a caller names its offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oncelog.errors import OffsetOutOfRangeError
from oncelog.log import partition_reads
from oncelog.log.index import PartitionIndex
from oncelog.log.index_files import IndexFiles
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol.partition import IndexEntry, PartitionState, TopicState
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads


@dataclass(frozen=True, slots=True)
class Removed:
    """What a retention run took out of one partition."""

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
        store, files: of the log.
        partition: one of the topic's.
        topic: its retention.
        now_ms: the store's time, compared with the records' timestamps.
        dry_run: say what would be removed, and change nothing.

    Returns:
        what was removed; None if nothing may go.
    """

    def find(state: PartitionState, index: PartitionIndex) -> list[IndexEntry]:
        return _outlived(state, index.entries(files, state.log_start, removable_end(state)), topic, now_ms)

    state, going = partition_reads.walk_index(store, partition, find)
    if not going:
        return None
    return _removed(partition, going) if dry_run else _move_log_start(store, partition, state, going)


def _outlived(state: PartitionState, entries: Iterable[IndexEntry], topic: TopicState, now_ms: int) -> list[IndexEntry]:
    """The oldest entries that the topic's retention lets go."""
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
    # A reader that took every record may stand before the markers behind them, not before the log start.
    while going and going[-1].block is None:
        going.pop()
    return going


def delete_records(
    store: ZnodeStore, files: IndexFiles, partition: TopicIdPartition, before_offset: int
) -> Removed | None:
    """Move the log start to `before_offset`, or as far towards it as unsettled transactions allow.

    Raises:
        OffsetOutOfRangeError: the offset is below the log start or above the log end.
    """

    def find(state: PartitionState, index: PartitionIndex) -> list[IndexEntry]:
        check_within(state, partition, before_offset)
        end = min(before_offset, removable_end(state))
        return [entry for entry in index.entries(files, state.log_start, end) if entry.end_offset <= end]

    state, going = partition_reads.walk_index(store, partition, find)
    return _move_log_start(store, partition, state, going) if going else None


def check_within(state: PartitionState, partition: TopicIdPartition, offset: int) -> None:
    """Refuse an offset that is not one of the log's.

    Raises:
        OffsetOutOfRangeError: it is below the log start or above the log end.
    """
    if not state.log_start <= offset <= state.log_end:
        raise OffsetOutOfRangeError(
            "the offset is not within the log",
            partition=str(partition),
            offset=offset,
            log_start=state.log_start,
            log_end=state.log_end,
        )


def removable_end(state: PartitionState) -> int:
    """Where unsettled data begins, or the log end: nothing from here on may be removed."""
    return min((span.first for span in state.owners), default=state.log_end)


def _move_log_start(
    store: ZnodeStore, partition: TopicIdPartition, seen: PartitionState, going: list[IndexEntry]
) -> Removed | None:
    removed = _removed(partition, going)
    log_start = removed.log_start

    def step(view: ZnodeView) -> bool:
        state = partition_reads.read_partition(view, partition)
        if (state.log_start, state.roots) != (seen.log_start, seen.roots) or removable_end(state) < log_start:
            return False  # another run moved it, or the tail was rolled: the next run looks again
        gone = [
            node for node in partition_reads.read_index(view, partition, state).tail if node.end_offset <= log_start
        ]
        for node in gone:
            view.delete(paths.tail_node(partition, node.base_offset))
        moved = replace(
            state,
            log_start=log_start,
            roots=tuple(ref for ref in state.roots if ref.end > log_start),
            tail_nodes=state.tail_nodes - len(gone),
            size_bytes=state.size_bytes - removed.size_bytes,
        )
        view.set(paths.partition(partition), payloads.encode_partition(moved))
        return True

    return removed if store.transact(step) else None


def _removed(partition: TopicIdPartition, going: list[IndexEntry]) -> Removed:
    blocks = [entry.block for entry in going if entry.block]
    return Removed(
        partition, going[-1].end_offset, sum(block.count for block in blocks), sum(block.length for block in blocks)
    )
