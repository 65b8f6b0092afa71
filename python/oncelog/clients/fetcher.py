"""Plans the visible records of assigned partitions as slices of blocks, and returns them as columns.

Owns what is planned and not yet returned; a block is read only when it is returned. The consumer, the only caller, says
where each partition is read from, and up to where.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from oncelog.clients.services import LogServices
from oncelog.errors import DataLossError, OncelogError
from oncelog.habits import Guided
from oncelog.log import snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.log.segment import read_block
from oncelog.log.snapshot import LogSnapshot, VisibleRange
from oncelog.protocol.partition import PartitionState
from oncelog.types import Block, BlockSlice, ConsumerRecord, IsolationLevel, TopicIdPartition

PLANNED_RECORDS = 1_000_000
"""Records that a partition plans ahead; bounds the memory for the index entries of a large backlog."""


@dataclass(frozen=True, slots=True)
class ConsumerBatch:
    """Consecutive visible records of one partition, as columns.

    Attributes:
        base_offset: offset of the first row; the rows have consecutive offsets.
        records: columns `key`, `value`, `headers` and `timestamp_ms` (`codec.RECORD_SCHEMA`).
    """

    topic: str
    partition: int
    base_offset: int
    records: pa.RecordBatch


class Records(list[ConsumerRecord], Guided):
    """The records of a `poll`: a list, which is one message or a dict by partition in other clients."""

    __slots__ = ()


def records_of(batch: ConsumerBatch) -> Iterator[ConsumerRecord]:
    """The rows of a batch, one by one."""
    columns = batch.records.to_pydict()
    rows = zip(columns["key"], columns["value"], columns["headers"], columns["timestamp_ms"], strict=True)
    for at, (key, value, headers, timestamp_ms) in enumerate(rows):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield ConsumerRecord(batch.topic, batch.partition, batch.base_offset + at, timestamp_ms, key, value, pairs)


@dataclass(slots=True)
class Assignment:
    """An assigned partition: its position, and what is planned after it."""

    partition: TopicIdPartition
    position: int | None = None
    planned: deque[BlockSlice] = field(default_factory=deque)
    planned_end: int | None = None
    is_paused: bool = False

    def seek(self, position: int | None) -> None:
        """Forget what is planned, and continue at `position`."""
        self.position = position
        self.planned.clear()
        self.planned_end = None

    def plan(self, visible: VisibleRange) -> None:
        """Add `visible` to what is planned."""
        self.planned.extend(visible.slices)
        self.planned_end = visible.end
        self.pass_planned_end()

    def take(self, max_rows: int) -> BlockSlice:
        """Take the first planned rows of one block, and move the position past them.

        The position moves first, so that it shows what was taken even if Ctrl-C interrupts.
        """
        first = self.planned[0]
        cut = min(first.first_row + max_rows, first.end_row)
        self.position = first.base_offset + cut
        if cut < first.end_row:
            self.planned[0] = BlockSlice(first.block, first.base_offset, cut, first.end_row)
        else:
            self.planned.popleft()
            self.pass_planned_end()
        return BlockSlice(first.block, first.base_offset, first.first_row, cut)

    def pass_planned_end(self) -> None:
        """Once everything planned is returned, move past the markers and aborted records after it."""
        if not self.planned and self.planned_end is not None:
            self.position = self.planned_end
            self.planned_end = None


class Fetcher:
    """Plans and reads for one consumer."""

    def __init__(self, services: LogServices, index_files: IndexFiles, isolation: IsolationLevel) -> None:
        self._services = services
        self._index_files = index_files
        self._isolation = isolation
        self._last_read: tuple[Block, pa.RecordBatch] | None = None

    def plan(self, assignments: Sequence[Assignment], seen: LogSnapshot) -> None:
        """Plan all or none: if one cannot be planned, the others must not show their parts of a transaction."""
        found = [
            self._visible(a, seen.end(a.partition, self._isolation), seen.partitions[a.partition]) for a in assignments
        ]
        for assignment, visible in zip(assignments, found, strict=True):
            assignment.plan(visible)

    def _visible(self, assignment: Assignment, end: int, state: PartitionState | None = None) -> VisibleRange:
        """The visible records from the position up to `end`; see `snapshot.visible_range`."""
        position = assignment.position or 0
        return snapshot.visible_range(
            self._services.store,
            self._index_files,
            assignment.partition,
            position,
            max(end, position),
            self._isolation,
            max_records=PLANNED_RECORDS,
            state=state,
        )

    def take(self, assignments: Iterable[Assignment], max_records: int) -> list[ConsumerBatch]:
        """Return planned records. A block that cannot be read stays planned, and the records before it are returned."""
        taken: list[ConsumerBatch] = []
        room = max_records
        for assignment in assignments:
            while assignment.planned and room > 0:
                try:
                    records = self._read(assignment.planned[0].block)
                except OncelogError as error:
                    if taken:
                        return taken
                    if isinstance(error, DataLossError):
                        self._check_not_removed(assignment)
                    raise
                piece = assignment.take(room)
                room -= piece.count
                tp, base_offset = assignment.partition, piece.base_offset + piece.first_row
                rows = records.slice(piece.first_row, piece.count)
                taken.append(ConsumerBatch(tp.topic, tp.partition, base_offset, rows))
        return taken

    def _check_not_removed(self, assignment: Assignment) -> None:
        """Raise a better error for a missing file if retention or a deletion removed it after the plan was made.

        Raises:
            DataLossError, UnknownTopicError: this is why the file is missing.
        """
        planned = assignment.planned[0]
        self._visible(assignment, planned.base_offset + planned.end_row)

    def _read(self, block: Block) -> pa.RecordBatch:
        """The records of a block. The last one is cached, because small polls read the same block repeatedly."""
        if self._last_read is None or self._last_read[0] != block:
            self._last_read = (block, read_block(self._services.files, block))
        return self._last_read[1]
