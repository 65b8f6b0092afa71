"""The driver side of the source: decides where a read starts and ends, and divides it into tasks.

It knows the log and the options, but not Spark; selection.py selects the partitions. All of this runs in the process
that plans. What tasks need is in the `ReadTask`s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import groups
from oncelog.errors import (
    DataLossError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from oncelog.log import partition_reads, snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import ZnodeReader
from oncelog.runtime import Log
from oncelog.spark.offsets import PartitionEnd, SourceOffset, TopicOffsets
from oncelog.spark.options import SourceOptions
from oncelog.spark.positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Bound,
    NoMatch,
    Position,
)
from oncelog.spark.selection import Selection
from oncelog.types import BlockSlice, TopicIdPartition, TopicPartition

_log = logging.getLogger(__name__)

TASK_BYTES = 32 * 1024 * 1024
"""The most compressed bytes for one task, so that a large backlog uses all cores."""

Offsets = dict[TopicIdPartition, int]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What one task reads: visible rows of one partition, by file and byte range. Tasks read no metadata."""

    path: str
    topic: str
    partition: int
    slices: tuple[BlockSlice, ...]


class SourcePlanner:
    """Plans reads of one source over one log."""

    def __init__(self, log: Log, options: SourceOptions) -> None:
        self._log = log
        self._store = log.services.store
        self._index_files = IndexFiles(log.services.files)
        self._options = options
        self._upkeep = Upkeep(log.services)
        self._selection = Selection(options)

    # Plans ------------------------------------------------------------------------------------------------------------

    def plan(self, known: SourceOffset | None = None) -> LogSnapshot:
        """One plan over all partitions that the options select now.

        Args:
            known: how far the query has read; None for a new query.

        Raises:
            UnknownTopicError, UnknownPartitionError, DataLossError: see `Selection.read`.
            PlanOvertakenError: keep the previous ends, or try again.
        """
        return self._taken(lambda reader: self._selection.read(reader, known))

    def latest(self) -> Offsets:
        """Where a read would end now, for the selected partitions that exist."""
        return self.ends(self._taken(self._selection.existing))

    def _taken(self, wanted: Callable[[ZnodeReader], list[TopicIdPartition]]) -> LogSnapshot:
        self._store.sync()
        seen = snapshot.take_selected(self._store, wanted)
        self._upkeep.after_planning(seen)
        return seen

    def ends(self, seen: LogSnapshot) -> Offsets:
        """Where a read under the source's isolation level ends."""
        return {partition: seen.end(partition, self._options.isolation_level) for partition in seen.partitions}

    # Positions --------------------------------------------------------------------------------------------------------

    def starting(self) -> Offsets:
        """Where a new query starts.

        Raises:
            OffsetOutOfRangeError, InvalidOptionError: the log does not have the starting position.
        """
        return self._resolve(self._options.starting, self.plan(), "startingOffsets")

    def bounds(self) -> list[tuple[TopicIdPartition, int, int]]:
        """The range that a batch read reads of each partition, from one plan and within its isolation level.

        Raises:
            OffsetOutOfRangeError, InvalidOptionError: the log does not have a position that an option names.
        """
        seen = self.plan()
        starting = self._resolve(self._options.starting, seen, "startingOffsets")
        wanted, limits = self._resolve(self._options.ending, seen, "endingOffsets"), self.ends(seen)
        return [(p, start, max(min(wanted[p], limits[p]), start)) for p, start in sorted(starting.items())]

    def within(self, known: SourceOffset, seen: LogSnapshot) -> SourceOffset:
        """Where a query continues: at `known` without deleted partitions, or at the end of a log that is an older copy.

        Deleted partitions never come back, so once they are left out, the query may set failOnDataLoss again.

        Raises:
            DataLossError: under failOnDataLoss, the log ends before `known`.
        """
        kept = {
            partition: offset
            for partition, offset in known.partitions().items()
            if not self._selection.is_gone(partition)
        }
        here = kept | self._beyond(kept, seen)
        return known if here == known.partitions() else replace(known, topics=self.source_offset(here).topics)

    def _beyond(self, offsets: Offsets, seen: LogSnapshot) -> Offsets:
        """The partitions whose log ends before their offset, each with the end where to continue instead."""
        found = {p: offset for p, offset in offsets.items() if p in seen.partitions}
        found = {p: offset for p, offset in found.items() if offset > seen.partitions[p].log_end}
        ends = self.ends(seen) if found else {}
        for partition, offset in list(found.items()):
            log_end = partition_reads.read_partition(self._store, partition).log_end
            if offset <= log_end:
                del found[partition]  # a group's offset may be younger than the plan
                continue
            lost = {"topic": partition.topic, "partition": partition.partition, "position": offset, "log_end": log_end}
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    "the log ends before the position to continue from: it is an older copy (restored from a backup?); "
                    "read the newest copy, or start with a new checkpoint (and group); failOnDataLoss=false continues "
                    "at the end of this copy",
                    **lost,
                )
            _log.warning("the log ends before the position to continue from; continuing at its end: %s", lost)
        return {partition: ends[partition] for partition in found}

    def _resolve(self, position: Position, seen: LogSnapshot, option: str) -> Offsets:
        starts = {partition: state.log_start for partition, state in seen.partitions.items()}
        match position:
            case Bound.EARLIEST:
                return starts
            case Bound.LATEST:
                return self.ends(seen)
            case Bound.GROUP:
                committed = self._group_offsets(seen)
                return starts | committed | self._beyond(committed, seen)
            case AtOffsets(offsets=offsets):
                return self._explicit(offsets, seen, option)
            case AtTimestamp(timestamp_ms=timestamp_ms, no_match=no_match):
                return {p: self._at_time(p, timestamp_ms, no_match, seen) for p in seen.partitions}
            case AtTimestamps(timestamps_ms=timestamps_ms, no_match=no_match):
                _check_names_all(timestamps_ms, seen, option)
                return {p: self._at_time(p, timestamps_ms[p.topic_partition], no_match, seen) for p in seen.partitions}

    def _group_offsets(self, seen: LogSnapshot) -> Offsets:
        """What the group committed; for a sink's group, what is decided, even while another batch is undecided.

        Reading the group here aborts nobody's batch. If this query continues the group with a sink, its first batch
        does: the sink aborts the round of the query that it takes over, and refuses its own batch if the group has
        moved since it was read here (rounds.py).
        """
        group_id = self._options.group_id or ""
        with self._store.snapshot() as reader:
            record = groups.read_group(reader, group_id)
            is_of_sink = record is not None and record.owning_prefix is not None
            committed = groups.fetch(reader, group_id, seen.partitions, require_stable=not is_of_sink)
        return {partition: value.offset for partition, value in committed.items()}

    def _explicit(self, offsets: Mapping[TopicPartition, int], seen: LogSnapshot, option: str) -> Offsets:
        _check_names_all(offsets, seen, option)
        ends = self.ends(seen)
        resolved = {}
        for partition, state in seen.partitions.items():
            wanted = offsets[partition.topic_partition]
            stand_ins = {EARLIEST_OFFSET: state.log_start, LATEST_OFFSET: ends[partition]}
            offset = stand_ins.get(wanted, wanted)
            if not state.log_start <= offset <= state.log_end:
                raise OffsetOutOfRangeError(
                    "the option names an offset outside the log",
                    option=option,
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=offset,
                    log_start=state.log_start,
                    log_end=state.log_end,
                )
            resolved[partition] = offset
        return resolved

    def _at_time(self, partition: TopicIdPartition, timestamp_ms: int, no_match: NoMatch, seen: LogSnapshot) -> int:
        """The first record of that time or later. In an open transaction it is there, too: the read waits for it."""
        log_end = seen.partitions[partition].log_end
        found = snapshot.offset_for_time(
            self._store, self._log.services.files, self._index_files, partition, timestamp_ms, log_end
        )
        if found is None and no_match is NoMatch.ERROR:
            raise InvalidOptionError(
                "no record is at or after the given time; startingOffsetsByTimestampStrategy=latest starts at the end",
                topic=partition.topic,
                partition=partition.partition,
                timestamp_ms=timestamp_ms,
            )
        return self.ends(seen)[partition] if found is None else found

    def source_offset(self, offsets: Offsets) -> SourceOffset:
        """The positions as an offset for Spark to keep."""
        named: dict[str, TopicOffsets] = {}
        for partition, offset in sorted(offsets.items()):
            topic = named.setdefault(partition.topic, TopicOffsets(partition.topic_id, {}))
            named[partition.topic] = TopicOffsets(topic.topic_id, {**topic.offsets, partition.partition: offset})
        return SourceOffset(self._log.cluster_id, self._options.group_id, named)

    # Admission --------------------------------------------------------------------------------------------------------

    def next_ends(
        self, known: SourceOffset, seen: LogSnapshot, max_rows: int | None, *, ceiling: Offsets | None = None
    ) -> list[PartitionEnd]:
        """How far the next batch reads: to the plan's ends, or to about `max_rows` rows.

        Rows are counted in the index, so markers and aborted data do not count. Each partition gets a share in
        proportion to its offsets that wait, as in Spark's Kafka source, and at least one row. If `max_rows` is smaller
        than the number of partitions, each batch begins with another partition.

        Args:
            known: where the batch starts.
            seen: the plan that the batch is part of.
            max_rows: of all partitions together; None for no limit.
            ceiling: where an AvailableNow query ends; partitions that are not in it are left out.
        """
        ends = self.ends(seen)
        if ceiling is not None:
            ends = {partition: min(end, ceiling[partition]) for partition, end in ends.items() if partition in ceiling}
        if max_rows is not None:
            ends = self._limited(known, ends, max_rows)
        return [PartitionEnd(p, seen.partitions[p].log_start, end) for p, end in ends.items()]

    def _limited(self, known: SourceOffset, ends: Offsets, max_rows: int) -> Offsets:
        starts = {partition: start for partition in ends if (start := known.offset_of(partition)) is not None}
        waiting = {p: count for p, start in sorted(starts.items()) if (count := ends[p] - start) > 0}
        total, room, limited = sum(waiting.values()), max_rows, dict(ends)
        for partition in _in_turn(list(waiting), starts):
            start, end, count = starts[partition], ends[partition], waiting[partition]
            share = min(room, max(1, max_rows * count // total)) if room else 0
            found = self._visible(partition, start, end, share) if share else None
            limited[partition] = found.end if found else start
            room -= found.count if found else 0
        return limited

    def has_rows(self, known: SourceOffset, seen: LogSnapshot, least: int) -> bool:
        """Whether at least `least` rows are available after `known`."""
        found = 0
        for partition, end in self.ends(seen).items():
            start = known.offset_of(partition)
            if start is not None and found < least:
                found += self._visible(partition, start, end, least - found).count
        return found >= least

    # Tasks ------------------------------------------------------------------------------------------------------------

    def tasks(self, ranges: Iterable[tuple[TopicIdPartition, int, int]]) -> list[ReadTask]:
        """The visible rows of the ranges ``(partition, start, end)``, divided into tasks.

        Raises:
            DataLossError: under failOnDataLoss, if retention or a deletion removed records of a range.
        """
        found = [(p, self._visible(p, start, end).slices) for p, start, end in ranges]
        rows = sum(piece.count for _, slices in found for piece in slices)
        task_rows = max(1, rows // (self._options.min_partitions or 1))
        path = self._log.path
        return [
            ReadTask(path, partition.topic, partition.partition, part)
            for partition, slices in found
            for part in _cut(slices, task_rows)
        ]

    def _visible(
        self, partition: TopicIdPartition, start: int, end: int, max_records: int | None = None
    ) -> snapshot.VisibleRange:
        try:
            if not self._options.fail_on_data_loss:
                state = partition_reads.read_partition(self._store, partition)
                start, end = max(start, state.log_start), min(end, state.log_end)
            return snapshot.visible_range(
                self._store,
                self._index_files,
                partition,
                start,
                end,
                self._options.isolation_level,
                max_records=max_records,
            )
        except UnknownTopicError:
            self._selection.lose(partition)
            return snapshot.VisibleRange((), end)


def _in_turn(partitions: list[TopicIdPartition], starts: Offsets) -> list[TopicIdPartition]:
    """The partitions, rotated by a hash of their offsets, so that another one is first whenever offsets change."""
    mixed = crc32(repr([starts[partition] for partition in partitions]).encode())
    first = mixed % max(1, len(partitions))
    return partitions[first:] + partitions[:first]


def _cut(slices: tuple[BlockSlice, ...], task_rows: int) -> Iterable[tuple[BlockSlice, ...]]:
    """Slices by task, each task at most `task_rows` and about `TASK_BYTES`; several tasks may read the same block."""
    part: list[BlockSlice] = []
    rows = size_bytes = 0
    for piece in slices:
        rest: BlockSlice | None = piece
        while rest is not None:
            if part and (rows == task_rows or size_bytes + piece.block.length > TASK_BYTES):
                yield tuple(part)
                part, rows, size_bytes = [], 0, 0
            head, rest = _split(rest, task_rows - rows)
            part.append(head)
            rows += head.count
            size_bytes += head.block.length
    if part:
        yield tuple(part)


def _split(piece: BlockSlice, rows: int) -> tuple[BlockSlice, BlockSlice | None]:
    """The first `rows` rows of a slice, and the rest of it."""
    if piece.count <= rows:
        return piece, None
    at = piece.first_row + rows
    return replace(piece, end_row=at), replace(piece, first_row=at)


def _check_names_all(named: Iterable[TopicPartition], seen: LogSnapshot, option: str) -> None:
    wanted, found = set(named), {partition.topic_partition for partition in seen.partitions}
    if wanted != found:
        raise InvalidOptionError(
            "the option must name exactly the partitions that are read",
            option=option,
            missing=sorted(map(str, found - wanted)),
            not_read=sorted(map(str, wanted - found)),
        )
