"""The index of a partition: finds the entry of any offset, however long the history is.

New entries are tail znodes. `rolled` moves the oldest into leaf files, and every 16 files of a level get a parent. So
the partition's znode lists O(log n) roots, and a lookup only reads the files that it needs.

Every offset in ``[log_start, log_end)`` has an entry. A walk that finds a hole raises an error; it must never return
"no rows". The index never decides visibility (protocol/visibility.py), and never writes znodes (log/partition_log.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from oncelog import limits
from oncelog.errors import CorruptDataError
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, TailNode

LEAF_MAX_ENTRIES = 4096
"""Entries in one leaf file. A lookup parses at most one more leaf than it needs at each end."""


@dataclass(frozen=True, slots=True)
class PartitionIndex:
    """The index of a partition at one moment: its roots and its tail nodes, both oldest first."""

    roots: tuple[IndexRef, ...]
    tail: tuple[TailNode, ...]

    def entries(self, files: IndexFiles, start: int, end: int) -> Iterator[IndexEntry]:
        """The entries that overlap ``[start, end)``, in order. They are read lazily, so a caller may stop early.

        Raises:
            CorruptDataError: an offset of the range has no entry.
        """
        position = start
        is_first = True
        for entry in self._walk(files, start, end):
            if entry.base_offset > position or (entry.base_offset < position and not is_first):
                break  # overlapping entries would show rows twice
            position, is_first = entry.end_offset, False
            yield entry
        if position < end:
            raise CorruptDataError("the index has a hole", start=start, end=end, missing_offset=position)

    def _walk(self, files: IndexFiles, start: int, end: int) -> Iterator[IndexEntry]:
        for ref in self.roots:
            yield from _entries_below(files, ref, lambda node: node.start < end and node.end > start, start, end)
        for node in self.tail:
            if node.base_offset < end and node.end_offset > start:
                yield from (e for e in files.tail_entries(node) if e.base_offset < end and e.end_offset > start)

    def aborting_markers(self, files: IndexFiles, start: int, end: int) -> list[IndexEntry]:
        """The markers whose aborted range ``[first_offset, marker]`` overlaps ``[start, end)``."""
        found: list[IndexEntry] = []
        for ref in self.roots:
            found += _entries_below(files, ref, lambda node: _may_abort(node, start, end), start, ref.end)
        for node in self.tail:
            if node.end_offset > start:
                found += node.entries
        return [
            e for e in found if e.marker and e.marker.aborted and e.marker.first_offset < end and e.base_offset >= start
        ]

    def first_entry_since(self, files: IndexFiles, timestamp_ms: int, start: int) -> IndexEntry | None:
        """The first entry at or above `start` with a record of `timestamp_ms` or later."""

        def may_hold(node: IndexRef) -> bool:
            return node.end > start and node.max_timestamp_ms >= timestamp_ms

        for ref in self.roots:
            for entry in _entries_below(files, ref, may_hold, start, ref.end):
                if entry.block and entry.block.max_timestamp_ms >= timestamp_ms:
                    return entry
        for node in self.tail:
            if node.end_offset > start and node.max_timestamp_ms >= timestamp_ms:
                for entry in files.tail_entries(node):
                    if entry.end_offset > start and entry.block and entry.block.max_timestamp_ms >= timestamp_ms:
                        return entry
        return None

    def files_named(self, files: IndexFiles) -> Iterator[str]:
        """All files that this index names: index files, manifests, and data files, which repeat. Reads all of it."""
        for ref in self.roots:
            yield from _files_below(files, ref)
        for node in self.tail:
            if node.manifest is not None:
                yield node.manifest.file
            yield from (entry.block.file for entry in files.tail_entries(node) if entry.block)


def _entries_below(
    files: IndexFiles, ref: IndexRef, wanted: Callable[[IndexRef], bool], start: int, end: int
) -> Iterator[IndexEntry]:
    if not wanted(ref):
        return
    if ref.level == 0:
        yield from (entry for entry in files.leaf(ref) if entry.base_offset < end and entry.end_offset > start)
        return
    for child in files.children(ref):
        yield from _entries_below(files, child, wanted, start, end)


def _may_abort(ref: IndexRef, start: int, end: int) -> bool:
    return ref.end > start and ref.aborted_first is not None and ref.aborted_first < end


def _files_below(files: IndexFiles, ref: IndexRef) -> Iterator[str]:
    yield ref.file
    if ref.level == 0:
        yield from (entry.block.file for entry in files.leaf(ref) if entry.block)
        return
    for child in files.children(ref):
        yield from _files_below(files, child)


def rolled(
    files: IndexFiles, roots: Sequence[IndexRef], tail: Sequence[TailNode], new_name: Callable[[], str]
) -> tuple[IndexRef, ...]:
    """Write the entries of `tail` into index files; returns the new roots.

    Args:
        roots: the current roots, oldest first.
        tail: the oldest tail nodes, which follow the roots without a gap.
        new_name: returns the name of the next file.
    """
    entries = [entry for node in tail for entry in files.tail_entries(node)]
    chunks = (entries[at : at + LEAF_MAX_ENTRIES] for at in range(0, len(entries), LEAF_MAX_ENTRIES))
    grown = [*roots, *(files.write_leaf(new_name(), chunk) for chunk in chunks)]
    while (full := _full_level(grown)) is not None:
        first = next(at for at, ref in enumerate(grown) if ref.level == full)
        children = grown[first : first + limits.INDEX_FANOUT]
        grown[first : first + limits.INDEX_FANOUT] = [files.write_parent(new_name(), children)]
    return tuple(grown)


def _full_level(roots: Sequence[IndexRef]) -> int | None:
    """The lowest level that has enough refs for a parent."""
    counts = Counter(ref.level for ref in roots)
    return next((level for level in sorted(counts) if counts[level] >= limits.INDEX_FANOUT), None)
