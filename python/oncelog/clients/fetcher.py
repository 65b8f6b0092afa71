"""Plans the visible records of assigned partitions as slices of blocks, and returns them as columns.

Owns what is planned and not yet returned. The rows of a plan are looked up in pieces of `limits.PLANNED_RECORDS`, and a
block is read only when it is returned. The consumer, the only caller, says where each partition is read from, and up to
where.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from oncelog import limits
from oncelog.clients.services import LogServices
from oncelog.errors import DataLossError, OncelogError
from oncelog.habits import Guided
from oncelog.log import snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.log.segment import read_block
from oncelog.log.snapshot import LogSnapshot, VisibleRange
from oncelog.types import Block, BlockSlice, ConsumerRecord, IsolationLevel, TopicIdPartition


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
    """An assigned partition: its position, and what is planned after it.

    Attributes:
        planned: the rows after the position that are looked up.
        looked_up: where they end.
        plan_end: where the plan ends; None if everything planned is returned.
    """

    partition: TopicIdPartition
    position: int | None = None
    planned: deque[BlockSlice] = field(default_factory=deque)
    looked_up: int = 0
    plan_end: int | None = None
    is_paused: bool = False

    def seek(self, position: int | None) -> None:
        """Forget what is planned, and continue at `position`."""
        self.position = position
        self.planned.clear()
        self.plan_end = None

    def plan(self, visible: VisibleRange, plan_end: int) -> None:
        """Add `visible`, the next rows of a plan."""
        self.plan_end = plan_end
        self.looked_up = visible.end
        self.planned.extend(visible.slices)
        self.pass_looked_up()

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
            self.pass_looked_up()
        return BlockSlice(first.block, first.base_offset, first.first_row, cut)

    def pass_looked_up(self) -> None:
        """Once everything looked up is returned, move past the markers and aborted records after it."""
        if not self.planned:
            self.position = self.looked_up
            if self.looked_up == self.plan_end:
                self.plan_end = None


class Fetcher:
    """Plans and reads for one consumer."""

    def __init__(self, services: LogServices, index_files: IndexFiles, isolation: IsolationLevel) -> None:
        self._services = services
        self._index_files = index_files
        self._isolation = isolation
        self._last_read: tuple[Block, pa.RecordBatch] | None = None

    def plan(self, assignments: Sequence[Assignment], seen: LogSnapshot) -> None:
        """Plan all or none: if one cannot be planned, the others must not show their parts of a transaction."""
        ends = [max(seen.end(a.partition, self._isolation), a.position or 0) for a in assignments]
        found = [self._visible(a, end, seen) for a, end in zip(assignments, ends, strict=True)]
        for assignment, visible, end in zip(assignments, found, ends, strict=True):
            assignment.plan(visible, end)

    def has_planned(self, assignment: Assignment) -> bool:
        """Whether planned rows are left to return. They are looked up if only the end of the plan is known.

        Raises:
            DataLossError: retention or a deletion removed them.
        """
        while not assignment.planned and assignment.plan_end is not None:
            assignment.plan(self._visible(assignment, assignment.plan_end), assignment.plan_end)
        return bool(assignment.planned)

    def _visible(self, assignment: Assignment, end: int, seen: LogSnapshot | None = None) -> VisibleRange:
        """The next visible records from the position, up to `end` at most; see `snapshot.visible_range`."""
        return snapshot.visible_range(
            self._services.store,
            self._index_files,
            assignment.partition,
            assignment.position or 0,
            end,
            self._isolation,
            max_records=limits.PLANNED_RECORDS,
            seen=seen,
        )

    def take(self, assignments: Iterable[Assignment], max_records: int) -> list[ConsumerBatch]:
        """Return planned records: all that are left of the plan, or `max_records`.

        A block that cannot be read stays planned, and the records before it are returned.
        """
        taken: list[ConsumerBatch] = []
        room = max_records
        for assignment in assignments:
            while room > 0:
                try:
                    if not self.has_planned(assignment):
                        break
                    records = self._read_first(assignment)
                except OncelogError:
                    if taken:
                        return taken
                    raise
                piece = assignment.take(room)
                room -= piece.count
                tp, base_offset = assignment.partition, piece.base_offset + piece.first_row
                rows = records.slice(piece.first_row, piece.count)
                taken.append(ConsumerBatch(tp.topic, tp.partition, base_offset, rows))
        return taken

    def _read_first(self, assignment: Assignment) -> pa.RecordBatch:
        """The records of the first planned block.

        Raises:
            DataLossError, UnknownTopicError: its file is missing, or retention or a deletion removed it.
        """
        first = assignment.planned[0]
        try:
            return self._read(first.block)
        except DataLossError:
            self._visible(assignment, first.base_offset + first.end_row)  # raises if the records were removed
            raise

    def _read(self, block: Block) -> pa.RecordBatch:
        """The records of a block. The last one is cached, because small polls read the same block repeatedly."""
        if self._last_read is None or self._last_read[0] != block:
            self._last_read = (block, read_block(self._services.files, block))
        return self._last_read[1]
