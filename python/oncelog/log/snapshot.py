"""Reads consistent plans over partitions: the I/O around protocol/visibility.py.

A `LogSnapshot` says up to where a reader of all its partitions may read; `visible_range` says which rows of which
blocks it gets. The consumer, Spark's source and the settler use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from oncelog import limits
from oncelog.errors import CorruptDataError, DataLossError, PlanOvertakenError
from oncelog.log import partition_reads, segment
from oncelog.log.index import PartitionIndex
from oncelog.log.index_files import IndexFiles
from oncelog.ports import FileStore, Znode, ZnodeReader, ZnodeStore
from oncelog.protocol import visibility
from oncelog.protocol.partition import IndexEntry, OwnerState, PartitionState, TailNode
from oncelog.types import BlockSlice, IsolationLevel, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.transact import recently

WINDOW_ENTRIES = 1000
"""Index entries whose markers are looked up together."""


Select = Callable[[ZnodeReader], Iterable[TopicIdPartition]]


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The state of some partitions at one moment, and the plan for it.

    Attributes:
        owners: the owners that the partitions list.
        plan: the last stable offsets, planned over all `partitions` together.
        news: of partitions whose readers' positions were given: the tail node that begins there.
    """

    partitions: Mapping[TopicIdPartition, PartitionState]
    owners: Mapping[str, OwnerState]
    plan: visibility.Plan[TopicIdPartition]
    news: Mapping[TopicIdPartition, TailNode] = field(default_factory=dict)

    def end(self, partition: TopicIdPartition, isolation: IsolationLevel) -> int:
        """The end of what a reader may see: the LSO, or for read_uncommitted the log end."""
        if isolation is IsolationLevel.READ_COMMITTED:
            return max(self.plan.ends[partition], self.partitions[partition].log_start)
        return self.partitions[partition].log_end


def commits_zxid(reader: ZnodeReader) -> int:
    """S, which says what is decided: the mzxid of ``/commits``."""
    return _zxid_of(reader.get(paths.COMMITS))


def _zxid_of(znode: Znode | None) -> int:
    if znode is None:
        raise CorruptDataError("the store holds no log", path=paths.COMMITS)
    return znode.stat.mzxid


def take(
    store: ZnodeStore,
    partitions: Iterable[TopicIdPartition],
    *,
    snapshot_zxid: int | None = None,
    with_neighbours: bool = False,
    positions: Mapping[TopicIdPartition, int] | None = None,
) -> LogSnapshot:
    """Read a plan over `partitions`.

    Args:
        partitions: are planned together, so that the plan shows a transaction in all of them or in none.
        snapshot_zxid: an older S to plan with, which `store` told before (a settler's); None for the current one.
        with_neighbours: also plan over all partitions that share an owner with `partitions`, directly or indirectly,
            and leave out partitions that are gone (for settlers).
        positions: where a reader goes on, by partition. If a position was the log end until one append, then what it
            appended comes along, and `visible_range` has nothing left to ask for.

    Raises:
        PlanOvertakenError: settling overtook the reader on every attempt; keep the previous ends, or try again.
        UnknownTopicError: a topic was deleted.
    """
    wanted = list(partitions)
    for _ in range(limits.PLAN_ATTEMPTS):
        with store.snapshot() if snapshot_zxid is None else recently(store) as reader:  # any moment from S on will do
            if snapshot_zxid is None:
                zxid, listed, news = _read_with_zxid(reader, wanted, positions or {})
            else:
                zxid, listed, news = snapshot_zxid, partition_reads.read_existing(reader, wanted), {}
            if not with_neighbours:
                partition_reads.check_all(listed, wanted)
            found, owners = _with_owners(reader, listed, with_neighbours=with_neighbours)
        overtaken = visibility.is_overtaken(zxid, found.values())
        if not overtaken and owners is not None:
            return LogSnapshot(found, owners, visibility.plan(zxid, found, owners), news)
        if overtaken and snapshot_zxid is not None:
            break
    raise PlanOvertakenError("settling overtook this reader on every attempt; try again", partitions=len(wanted))


def awaited(seen: LogSnapshot) -> list[str]:
    """The znodes of which one must change before a plan over the same partitions can show more.

    An append changes its partition, and a decision its owner. An owner that holds nothing back now does so only after
    one that does is decided.
    """
    return [*map(paths.partition, seen.partitions), *sorted(set(seen.plan.blockers.values()))]


def take_selected(store: ZnodeStore, select: Select) -> LogSnapshot:
    """Read a plan over the partitions that `select` finds at the same moment, so that it shows whole transactions.

    On a store without atomic snapshots, the selection is read after S and before the partitions. Every owner that the
    plan shows was decided by S. Hence all topics that it wrote to existed when `select` read them, unless they were
    deleted since. If topics were listed before S, a topic could be created, written to and committed in between, and
    the plan would show only the other part of that transaction.

    Args:
        select: returns the partitions to plan together; called again if one of them is gone before it is read.

    Raises:
        PlanOvertakenError: see `take`.
    """
    for _ in range(limits.PLAN_ATTEMPTS):
        with store.snapshot() as reader:
            zxid = commits_zxid(reader)
            wanted = list(select(reader))
            listed = partition_reads.read_existing(reader, wanted)
            found, owners = _with_owners(reader, listed, with_neighbours=False)
        is_whole = len(found) == len(wanted) and not visibility.is_overtaken(zxid, found.values())
        if is_whole and owners is not None:
            return LogSnapshot(found, owners, visibility.plan(zxid, found, owners))
    raise PlanOvertakenError("settling or deletions overtook this reader on every attempt; try again")


def _read_with_zxid(
    reader: ZnodeReader, partitions: list[TopicIdPartition], positions: Mapping[TopicIdPartition, int]
) -> tuple[int, dict[TopicIdPartition, PartitionState], dict[TopicIdPartition, TailNode]]:
    """S, the existing partitions and the tail nodes at `positions`, by one request that reads them in this order."""
    nodes = {partition: paths.tail_node(partition, position) for partition, position in positions.items()}
    commits, *znodes = reader.get_many([paths.COMMITS, *map(paths.partition, partitions), *nodes.values()])
    news = {
        partition: payloads.decode_tail_node(path, znode.data)
        for (partition, path), znode in zip(nodes.items(), znodes[len(partitions) :], strict=True)
        if znode is not None
    }
    return _zxid_of(commits), partition_reads.existing(partitions, znodes[: len(partitions)]), news


def _with_owners(
    reader: ZnodeReader, partitions: dict[TopicIdPartition, PartitionState], *, with_neighbours: bool
) -> tuple[dict[TopicIdPartition, PartitionState], dict[str, OwnerState] | None]:
    """The partitions and their owners; no owners if one was settled in between, so the caller reads again."""
    found = dict(partitions)
    owners: dict[str, OwnerState] = {}
    seen = partitions
    while listed := {span.owner for state in seen.values() for span in state.owners} - owners.keys():
        owners |= partition_reads.read_existing_owners(reader, listed)
        if not listed <= owners.keys():
            return found, None
        pending = _neighbours(owners, listed, found.keys()) if with_neighbours else []
        seen = partition_reads.read_existing(reader, pending)
        found |= seen
    return found, owners


def _neighbours(
    owners: Mapping[str, OwnerState], names: set[str], known: Iterable[TopicIdPartition]
) -> list[TopicIdPartition]:
    reached = {paths.partition_of(path) for name in names for path in owners[name].partitions}
    return sorted(reached - set(known))


# Rows -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VisibleRange:
    """The visible rows of one partition up to `end`, in offset order."""

    slices: tuple[BlockSlice, ...]
    end: int

    @property
    def count(self) -> int:
        return sum(piece.count for piece in self.slices)


def visible_range(
    store: ZnodeStore,
    files: IndexFiles,
    partition: TopicIdPartition,
    start: int,
    end: int,
    isolation: IsolationLevel,
    *,
    max_records: int | None = None,
    seen: LogSnapshot | None = None,
) -> VisibleRange:
    """The rows of ``[start, end)`` that `isolation` shows, without control markers and aborted data.

    The result is repeatable, because below the end of a plan everything is decided.

    Args:
        max_records: end the range after this many rows, and read nothing beyond.
        seen: a plan over the partition that was just read. Where what is read now contradicts it, it is read again.

    Raises:
        DataLossError: the range begins below the log start, or ends above the log end.
        CorruptDataError: the index has a hole.
    """
    if start >= end:
        return VisibleRange((), end)
    known = iter(() if seen is None else (seen,))  # for the first attempt

    def read(reader: ZnodeReader) -> VisibleRange:
        if (plan := next(known, None)) is None:
            state, news = partition_reads.read_partition(reader, partition), None
        else:
            state, news = plan.partitions[partition], plan.news.get(partition)
        _check_bounds(state, partition, start, end)
        index = partition_reads.read_index(reader, partition, state, start=start, news=news)
        owners = _owners_within(reader, state, start, end) if plan is None else plan.owners
        return _range_of(index, files, owners, start, end, isolation, max_records)

    return partition_reads.consistently(store, read)


def _range_of(
    index: PartitionIndex,
    files: IndexFiles,
    owners: Mapping[str, OwnerState],
    start: int,
    end: int,
    isolation: IsolationLevel,
    max_records: int | None,
) -> VisibleRange:
    slices: list[BlockSlice] = []
    room = max_records
    for window in _windows(index.entries(files, start, end)):
        markers = index.aborting_markers(files, max(window[0].base_offset, start), window[-1].end_offset)
        aborted = visibility.aborted_pairs(markers)
        for entry in window:
            if entry.block is None or not visibility.is_shown(entry, isolation, owners, aborted):
                continue
            first = max(start - entry.base_offset, 0)
            last = min(end - entry.base_offset, entry.count)
            if room is not None and room < last - first:
                if room:
                    slices.append(BlockSlice(entry.block, entry.base_offset, first, first + room))
                return VisibleRange(tuple(slices), entry.base_offset + first + room)
            slices.append(BlockSlice(entry.block, entry.base_offset, first, last))
            room = None if room is None else room - (last - first)
    return VisibleRange(tuple(slices), end)


def _windows(entries: Iterator[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """Split entries into pieces, so that a limited read of a large backlog only looks up the markers that it needs."""
    while window := list(islice(entries, WINDOW_ENTRIES)):
        yield window


def _owners_within(reader: ZnodeReader, state: PartitionState, start: int, end: int) -> dict[str, OwnerState]:
    return read_owners(reader, [span.owner for span in state.owners if span.first < end and span.last >= start])


def read_owners(reader: ZnodeReader, names: list[str]) -> dict[str, OwnerState]:
    """The states of owners that a partition lists.

    Raises:
        CorruptDataError: an owner is gone. It was settled after the partition was read, or never existed.
    """
    owners = partition_reads.read_existing_owners(reader, names)
    for name in names:
        if name not in owners:
            raise CorruptDataError("a partition lists an owner that does not exist", owner=name)
    return owners


def _check_bounds(state: PartitionState, partition: TopicIdPartition, start: int, end: int) -> None:
    if start < state.log_start:
        raise DataLossError(
            "records that were still to be read are gone: retention removed them; raise the topic's retention, or "
            "continue without them with failOnDataLoss=false",
            topic=partition.topic,
            partition=partition.partition,
            wanted_offset=start,
            log_start=state.log_start,
        )
    if end > state.log_end:
        raise DataLossError(
            "the log ends before the range to be read: it is an older copy (restored from a backup?); read the newest "
            "copy, or start with a new checkpoint; failOnDataLoss=false continues at the end of this copy",
            topic=partition.topic,
            partition=partition.partition,
            wanted_end=end,
            log_end=state.log_end,
        )


def offset_for_time(
    store: ZnodeStore,
    data_files: FileStore,
    index_files: IndexFiles,
    partition: TopicIdPartition,
    timestamp_ms: int,
    end: int,
) -> int | None:
    """The first offset below `end` of a record with this timestamp or a later one; None if there is none.

    As in Kafka, all records count, including those that an isolation level does not show.
    """
    state, entry = partition_reads.walk_index(
        store, partition, lambda state, index: index.first_entry_since(index_files, timestamp_ms, state.log_start)
    )
    if entry is None or entry.block is None:
        return None
    stamps = segment.read_block(data_files, entry.block, columns=("timestamp_ms",)).column("timestamp_ms")
    first_row = max(state.log_start - entry.base_offset, 0)
    offsets = (entry.base_offset + row for row in range(first_row, entry.count) if stamps[row].as_py() >= timestamp_ms)
    found = next(offsets, None)
    return found if found is not None and found < end else None
