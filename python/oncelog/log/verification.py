"""Verifies that everything that the znodes name exists, and is what was written.

Reads all index entries of all partitions, their record batches, and all znodes. It returns all problems as values, so
that damage in one place does not hide damage in another. It must not change anything. It may run at the same time as
writers, retention and collection: each partition is read in one snapshot, and what retention removed meanwhile is not
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from oncelog import limits
from oncelog.batches.ledger import all_kinds
from oncelog.errors import (
    CorruptDataError,
    DataLossError,
    FileUnavailableError,
    OncelogError,
    UnknownTopicError,
    UnsupportedFormatError,
)
from oncelog.log import partition_reads, segment, topics
from oncelog.log.index_files import IndexFiles
from oncelog.ports import FileStore, ZnodeReader, ZnodeStore
from oncelog.protocol.partition import IndexEntry, IndexRef, PartitionState, TailNode
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.log_payloads import decode_format, decode_generation, decode_hold, decode_producer_ids
from oncelog.znodes.walking import paths_below, walk_below

DAMAGE = (CorruptDataError, DataLossError, FileUnavailableError, UnsupportedFormatError)


class Damage(StrEnum):
    """The kinds of problems."""

    MISSING_FILE = "missing_file"
    CORRUPT_FILE = "corrupt_file"
    UNREADABLE_FILE = "unreadable_file"
    MISSING_ZNODE = "missing_znode"
    CORRUPT_ZNODE = "corrupt_znode"
    HOLE = "hole"
    OVERLAP = "overlap"
    WRONG_TOTAL = "wrong_total"
    WRONG_OWNER = "wrong_owner"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        topic, partition: None if it concerns no partition.
        start_offset, end_offset: the offsets ``[start, end)`` that cannot be read because of it; None if there are
            none.
        place: the file's name, or the znode's path.
        detail: what was found.
    """

    damage: Damage
    topic: str | None
    partition: int | None
    start_offset: int | None
    end_offset: int | None
    place: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: what was checked, and all problems.

    Attributes:
        partitions, entries, records: how many were checked, over all topics.
        size_bytes: total size of the record batches that were checked.
        znodes: how many znodes of no partition were checked.
        problems: in the order of the partitions; empty if everything is sound.
    """

    partitions: int
    entries: int
    records: int
    size_bytes: int
    znodes: int
    problems: tuple[Problem, ...]


Progress = Callable[[int, int], None]
"""Called with the bytes of data that are done and in total."""


def verify(store: ZnodeStore, files: FileStore, *, on_progress: Progress = lambda done, total: None) -> Verified:
    """Verify a whole log; `on_progress` is called after each record batch."""
    run = _Run(store, files, on_progress)
    for partition in run.find_partitions():
        run.check_partition(partition)
    run.check_metadata()
    return Verified(run.partitions, run.entries, run.records, run.size_bytes, run.znodes, tuple(run.problems))


class _Counts(NamedTuple):
    """The counts before a partition, to check that partition again."""

    problems: int
    entries: int
    records: int
    size_bytes: int


@dataclass
class _Run:
    """One verification, with its counts and problems."""

    store: ZnodeStore
    files: FileStore
    on_progress: Progress
    problems: list[Problem] = field(default_factory=list)
    partitions: int = 0
    entries: int = 0
    records: int = 0
    size_bytes: int = 0
    znodes: int = 0
    total_bytes: int = 0

    def find_partitions(self) -> list[TopicIdPartition]:
        """All partitions. Also sums up the bytes to read."""
        found: list[TopicIdPartition] = []
        for topic in paths_below(self.store, paths.TOPICS):
            try:
                found += topics.partitions_of(self.store, paths.name_at(topic))
            except UnknownTopicError:
                continue  # it is being deleted
            except DAMAGE as error:
                self._report(Damage.CORRUPT_ZNODE, None, place=topic, detail=str(error))
        self.total_bytes = sum(_size_bytes(self.store, partition) for partition in found)
        return found

    def check_partition(self, partition: TopicIdPartition) -> None:
        """Check one partition: its index, its files, its owners, its totals.

        If there are problems and the index has changed since, check again: files of the old index may have been removed
        for good reasons.
        """
        self.partitions += 1
        before = self._counts()
        for _ in range(limits.PLAN_ATTEMPTS):
            self._count_from(before)
            state, tail = self._look(partition)
            if state is not None:
                _PartitionCheck(self, partition, state, tail).run()
            found = self._still_there(partition, self.problems[before.problems :])
            self.problems[before.problems :] = found
            if not found or state is None or not self._has_other_index(partition, state):
                return

    def _counts(self) -> _Counts:
        return _Counts(len(self.problems), self.entries, self.records, self.size_bytes)

    def _count_from(self, counts: _Counts) -> None:
        del self.problems[counts.problems :]
        self.entries, self.records, self.size_bytes = counts.entries, counts.records, counts.size_bytes

    def _has_other_index(self, partition: TopicIdPartition, seen: PartitionState) -> bool:
        try:
            state = partition_reads.read_partition(self.store, partition)
        except (UnknownTopicError, *DAMAGE):
            return False
        return (state.roots, state.log_start) != (seen.roots, seen.log_start)

    def _look(self, partition: TopicIdPartition) -> tuple[PartitionState | None, list[TailNode]]:
        """Read the partition's znode and its tail, and check its owners; again if the znode changed meanwhile."""
        before, path = len(self.problems), paths.partition(partition)
        attempts = 0
        while True:
            attempts += 1
            with self.store.snapshot() as reader:
                found = reader.get(path)
                state = self._read_state(partition, reader)
                tail = self._read_tail(partition, reader) if state else []
                if state is not None:
                    self._check_owners(partition, state, reader)
                if reader.get(path) == found or attempts == limits.PLAN_ATTEMPTS:
                    return state, tail
            del self.problems[before:]

    def _read_state(self, partition: TopicIdPartition, reader: ZnodeReader) -> PartitionState | None:
        path = paths.partition(partition)
        try:
            return partition_reads.read_partition(reader, partition)
        except UnknownTopicError:
            self._report(Damage.MISSING_ZNODE, partition, place=path, detail="the partition's znode is gone")
        except DAMAGE as error:
            self._report(Damage.CORRUPT_ZNODE, partition, place=path, detail=str(error))
        return None

    def _read_tail(self, partition: TopicIdPartition, reader: ZnodeReader) -> list[TailNode]:
        folder = paths.tail(partition)
        found = []
        for name, znode in reader.children_data(folder):
            path = f"{folder}/{name}"
            try:
                found.append(payloads.decode_tail_node(path, znode.data))
            except DAMAGE as error:
                self._report(Damage.CORRUPT_ZNODE, partition, place=path, detail=str(error))
        return found

    def _check_owners(self, partition: TopicIdPartition, state: PartitionState, reader: ZnodeReader) -> None:
        for span in state.owners:
            try:
                owner = partition_reads.read_owner(reader, span.owner)
            except DAMAGE as error:
                self._report(Damage.CORRUPT_ZNODE, partition, place=span.owner, detail=str(error))
                continue
            if owner is None:
                detail = f"the partition lists this owner from offset {span.first}, and its znode is gone"
                self._report(Damage.MISSING_ZNODE, partition, place=span.owner, detail=detail)
            elif paths.partition(partition) not in owner.partitions:
                detail = "the partition lists this owner, but the owner does not list the partition"
                self._report(Damage.WRONG_OWNER, partition, place=span.owner, detail=detail)
            if not state.log_start <= span.first <= span.last < state.log_end:
                detail = f"the owner's offsets {span.first} to {span.last} are not within the log"
                self._report(Damage.WRONG_OWNER, partition, place=span.owner, detail=detail)

    def _still_there(self, partition: TopicIdPartition, problems: list[Problem]) -> list[Problem]:
        """The problems without those in data that retention or the topic's deletion removed meanwhile."""
        try:
            if partition_reads.identify(self.store, partition.topic, partition.partition) != partition:
                return []  # the topic was deleted and created again
        except UnknownTopicError:
            return []
        except DAMAGE:
            return problems
        try:
            log_start = partition_reads.read_partition(self.store, partition).log_start
        except (UnknownTopicError, *DAMAGE):
            return problems
        return [problem for problem in problems if problem.end_offset is None or problem.end_offset > log_start]

    # Znodes of no partition -------------------------------------------------------------------------------------------

    def check_metadata(self) -> None:
        """Read all znodes of transactions, groups and ledgers, and those of the log as a whole."""
        for path, decode in _metadata(self.store):
            znode = self.store.get(path)
            if znode is None:
                continue  # settled, expired or deleted meanwhile
            self.znodes += 1
            try:
                decode(path, znode.data)
            except DAMAGE as error:
                self._report(Damage.CORRUPT_ZNODE, None, place=path, detail=str(error))

    def _report(self, damage: Damage, partition: TopicIdPartition | None, *, place: str, detail: str) -> None:
        topic, number = (partition.topic, partition.partition) if partition else (None, None)
        self.problems.append(Problem(damage, topic, number, None, None, place, detail))


def _size_bytes(reader: ZnodeReader, partition: TopicIdPartition) -> int:
    try:
        return partition_reads.read_partition(reader, partition).size_bytes
    except (UnknownTopicError, *DAMAGE):
        return 0  # reported when it is checked


Decode = Callable[[str, bytes], object]


def _metadata(store: ZnodeStore) -> Iterator[tuple[str, Decode]]:
    yield paths.FORMAT, lambda _, data: decode_format(data)
    yield paths.PRODUCER_IDS, lambda _, data: decode_producer_ids(data)
    yield paths.GENERATION, lambda _, data: decode_generation(data)
    yield from ((hold, decode_hold) for hold in paths_below(store, paths.HOLDS))
    for transaction in paths_below(store, paths.TRANSACTIONS):
        yield transaction, payloads.decode_transaction
        yield from ((owner, payloads.decode_owner) for owner in paths_below(store, transaction))
    for kind in all_kinds().values():  # ledgers over data elsewhere may share the store
        yield from kind.znodes(store)
    for group in paths_below(store, paths.GROUPS):
        yield group, payloads.decode_group
        yield from ((path, payloads.decode_group_partition) for path in _group_partitions(store, group))


def _group_partitions(store: ZnodeStore, group: str) -> Iterator[str]:
    return (path for path, _ in walk_below(store, group) if paths.is_group_partition(path))


# One partition --------------------------------------------------------------------------------------------------------


class _PartitionCheck:
    """Walks over the index of one partition at one moment, and tracks the next expected offset."""

    def __init__(self, run: _Run, partition: TopicIdPartition, state: PartitionState, tail: list[TailNode]) -> None:
        self._run = run
        self._partition = partition
        self._state = state
        self._tail = tail
        self._index_files = IndexFiles(run.files)
        self._position = state.log_start
        self._size_bytes = 0
        self._is_complete = True

    def run(self) -> None:
        """Check every entry of ``[log_start, log_end)``, then the totals of the partition's znode."""
        for ref in self._state.roots:
            self._check_subtree(ref)
        for node in self._tail:
            self._check_tail_node(node)
        self._expect(self._state.log_end)
        if self._is_complete and self._size_bytes != self._state.size_bytes:
            detail = f"the blocks have {self._size_bytes} bytes, the partition's znode says {self._state.size_bytes}"
            self._report(Damage.WRONG_TOTAL, paths.partition(self._partition), detail)
        if len(self._tail) != self._state.tail_nodes:
            detail = f"{len(self._tail)} tail znodes, the partition's znode says {self._state.tail_nodes}"
            self._report(Damage.WRONG_TOTAL, paths.tail(self._partition), detail)

    def _check_subtree(self, ref: IndexRef) -> None:
        if ref.end <= self._state.log_start:
            return
        try:
            if ref.level == 0:
                below: tuple[IndexEntry, ...] | tuple[IndexRef, ...] = self._index_files.leaf(ref)
            else:
                below = self._index_files.children(ref)
        except DAMAGE as error:
            self._lose(ref.start, ref.end, ref.file, error)
            return
        for item in below:
            if isinstance(item, IndexRef):
                self._check_subtree(item)
            else:
                self._check_entry(item)

    def _check_tail_node(self, node: TailNode) -> None:
        try:
            entries = self._index_files.tail_entries(node)
        except DAMAGE as error:
            self._lose(node.base_offset, node.end_offset, node.manifest.file if node.manifest else None, error)
            return
        for entry in entries:
            self._check_entry(entry)

    def _check_entry(self, entry: IndexEntry) -> None:
        if entry.end_offset <= self._state.log_start:
            return  # retention removed it, but its index file has newer entries
        self._expect(entry.base_offset)
        self._position = max(self._position, entry.end_offset)
        self._run.entries += 1
        if entry.block is None:
            return
        self._size_bytes += entry.block.length
        try:
            records = segment.read_block(self._run.files, entry.block)
        except DAMAGE as error:
            self._report_lost(entry.base_offset, entry.end_offset, entry.block.file, error)
        else:
            self._run.records += records.num_rows
        self._run.size_bytes += entry.block.length
        self._run.on_progress(self._run.size_bytes, max(self._run.total_bytes, self._run.size_bytes))

    def _expect(self, offset: int) -> None:
        """Check that the next entry begins where the last one ended: each offset is in exactly one entry."""
        if offset > self._position:
            self._report(Damage.HOLE, None, "no index entry covers these offsets", self._position, offset)
        elif offset < self._position:
            self._report(Damage.OVERLAP, None, "several index entries cover these offsets", offset, self._position)
        self._position = max(self._position, offset)

    def _lose(self, start: int, end: int, file: str | None, error: OncelogError) -> None:
        """Report a part of the index that cannot be read, and continue after it."""
        self._is_complete = False
        self._expect(max(start, self._state.log_start))
        self._position = max(self._position, end)
        self._report_lost(max(start, self._state.log_start), end, file, error)

    def _report_lost(self, start: int, end: int, file: str | None, error: OncelogError) -> None:
        self._report(_damage_of(error), file, _one_line(error), start, end)

    def _report(
        self, damage: Damage, place: str | None, detail: str, start: int | None = None, end: int | None = None
    ) -> None:
        where = self._partition
        self._run.problems.append(Problem(damage, where.topic, where.partition, start, end, place, detail))


def _damage_of(error: OncelogError) -> Damage:
    if isinstance(error, DataLossError):
        return Damage.MISSING_FILE
    return Damage.UNREADABLE_FILE if isinstance(error, FileUnavailableError) else Damage.CORRUPT_FILE


def _one_line(error: OncelogError) -> str:
    return " ".join(str(error).split())
