"""The index alone: rolling into levels, ranges, the markers that matter to a range, times."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import limits
from oncelog.errors import CorruptDataError, InvariantViolation
from oncelog.log import index
from oncelog.log.index import LEAF_MAX_ENTRIES, PartitionIndex
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, Manifest, Marker, TailNode
from oncelog.types import NO_TIMESTAMP, Block, Outcome, ProducerIdAndEpoch
from tests.support.log.logs import MemoryFiles

PRODUCER = ProducerIdAndEpoch(1, 0)


def data(base_offset: int, rows: int = 1, *, timestamp_ms: int = 0) -> IndexEntry:
    block = Block("data/00000001-a", 0, 10, 0, rows, timestamp_ms, timestamp_ms)
    return IndexEntry(base_offset, rows, PRODUCER, base_offset, None, block, None)


def aborting(base_offset: int, first_offset: int) -> IndexEntry:
    marker = Marker(Outcome.ABORT, first_offset, (PRODUCER,))
    return IndexEntry(base_offset, 1, PRODUCER, -1, "/transactions/a/1.0", None, marker)


def committing(base_offset: int) -> IndexEntry:
    return IndexEntry(
        base_offset, 1, PRODUCER, -1, "/transactions/a/1.0", None, Marker(Outcome.COMMIT, base_offset - 1, ())
    )


def node(*entries: IndexEntry) -> TailNode:
    newest = max((entry.block.max_timestamp_ms for entry in entries if entry.block), default=NO_TIMESTAMP)
    rows = sum(entry.count for entry in entries if entry.block)
    return TailNode(entries[0].base_offset, entries[-1].end_offset, rows, 10 * rows, newest, entries)


class Built:
    """An index, rolled `every` so many entries."""

    def __init__(self, entries: list[IndexEntry], every: int) -> None:
        self.files = IndexFiles(MemoryFiles())
        names = count()
        roots: tuple[IndexRef, ...] = ()
        rest = list(entries)
        while len(rest) >= every:
            chunk, rest = rest[:every], rest[every:]
            roots = index.rolled(
                self.files, roots, [node(entry) for entry in chunk], lambda: f"index/00000001-{next(names)}"
            )
        self.index = PartitionIndex(roots, tuple(node(entry) for entry in rest))

    def entries(self, start: int, end: int) -> list[IndexEntry]:
        return list(self.index.entries(self.files, start, end))


@st.composite
def histories(draw: st.DrawFn) -> list[IndexEntry]:
    """Data of one to five rows, and markers that abort from somewhere before them, without a gap."""
    entries: list[IndexEntry] = []
    offset = 0
    for kind in draw(st.lists(st.integers(0, 5), min_size=1, max_size=60)):
        if kind == 0 and offset:
            entries.append(aborting(offset, draw(st.integers(0, offset - 1))))
        else:
            entries.append(data(offset, max(kind, 1), timestamp_ms=draw(st.integers(0, 20))))
        offset = entries[-1].end_offset
    return entries


@given(histories(), st.integers(1, 9), st.integers(2, 4), st.data())
def test_a_range_of_a_rolled_index_is_that_range_of_the_plain_list(
    entries: list[IndexEntry], every: int, fanout: int, draw: st.DataObject
) -> None:
    """conformance: 29."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "INDEX_FANOUT", fanout)
        built = Built(entries, every)
    end_offset = entries[-1].end_offset
    start = draw.draw(st.integers(0, end_offset - 1))
    end = draw.draw(st.integers(start + 1, end_offset))
    timestamp_ms = draw.draw(st.integers(0, 21))

    overlapping = [entry for entry in entries if entry.base_offset < end and entry.end_offset > start]
    assert built.entries(start, end) == overlapping
    markers = [
        entry
        for entry in entries
        if entry.marker and entry.marker.aborted and entry.marker.first_offset < end and entry.base_offset >= start
    ]
    assert built.index.aborting_markers(built.files, start, end) == markers
    since = [e for e in entries if e.block and e.end_offset > start and e.block.max_timestamp_ms >= timestamp_ms]
    assert built.index.first_entry_since(built.files, timestamp_ms, start) == (since[0] if since else None)


def test_levels_fall_from_old_to_new_and_no_level_fills_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_FANOUT", 3)
    built = Built([data(at) for at in range(200)], 2)
    levels = [ref.level for ref in built.index.roots]

    assert levels == sorted(levels, reverse=True)
    assert all(levels.count(level) < 3 for level in levels)
    assert sum(ref.entries for ref in built.index.roots) == 200
    assert [ref.start for ref in built.index.roots[1:]] == [ref.end for ref in built.index.roots[:-1]]


def test_a_roll_of_many_entries_makes_leaves_of_bounded_size() -> None:
    files = IndexFiles(MemoryFiles())
    names = count()
    entries = tuple(data(at) for at in range(2 * LEAF_MAX_ENTRIES + 1))
    roots = index.rolled(files, (), [node(*entries)], lambda: f"index/00000001-{next(names)}")

    assert [ref.entries for ref in roots] == [LEAF_MAX_ENTRIES, LEAF_MAX_ENTRIES, 1]


def test_a_walk_may_stop_early_without_reading_on() -> None:
    built = Built([data(at) for at in range(10)], 5)
    walk = built.index.entries(built.files, 0, 10)

    assert next(walk).base_offset == 0


@pytest.mark.parametrize(
    ("tail", "missing"), [([data(1)], 0), ([data(0), data(2)], 1), ([data(0), data(1)], 2), ([], 0)]
)
def test_a_hole_is_an_error_that_names_the_missing_offset(tail: list[IndexEntry], missing: int) -> None:
    """conformance: 40."""
    holed = PartitionIndex((), tuple(node(entry) for entry in tail))
    with pytest.raises(CorruptDataError, match=f"missing_offset={missing}"):
        list(holed.entries(IndexFiles(MemoryFiles()), 0, 3))


def test_a_leaf_with_a_gap_is_never_written() -> None:
    with pytest.raises(InvariantViolation, match="gap"):
        IndexFiles(MemoryFiles()).write_leaf("index/00000001-a", [data(0), data(2)])


def test_children_of_different_levels_never_share_a_parent() -> None:
    files = IndexFiles(MemoryFiles())
    leaf = files.write_leaf("index/00000001-a", [data(0)])
    parent = files.write_parent("index/00000001-b", [leaf])
    with pytest.raises(InvariantViolation, match="one level"):
        files.write_parent("index/00000001-c", [leaf, parent])


def test_totals_of_a_tree_are_those_of_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)
    entries = [data(0, 3, timestamp_ms=7), committing(3), data(4, 2, timestamp_ms=9), aborting(6, 4)]
    (root,) = Built(entries, 1).index.roots

    assert (root.level, root.start, root.end, root.entries) == (2, 0, 7, 4)
    assert (root.records, root.size_bytes, root.max_timestamp_ms, root.aborted_first) == (5, 20, 9, 4)


def test_a_manifest_is_read_as_the_entries_of_its_append() -> None:
    files = IndexFiles(MemoryFiles())
    blocks = [Block("data/00000001-a", 10 * at, 10, at, at + 1, 0, 0) for at in range(3)]
    files.write_manifest("manifests/00000001-a", blocks)
    manifest = Manifest("manifests/00000001-a", 3, PRODUCER, 2**31 - 2, "/transactions/a/1.0")
    tail = TailNode(100, 106, 6, 30, 0, manifest=manifest)
    entries = files.tail_entries(tail)

    assert [(entry.base_offset, entry.base_sequence) for entry in entries] == [
        (100, 2**31 - 2),
        (101, 2**31 - 1),
        (103, 1),
    ]
    assert [entry.block for entry in entries] == blocks
    assert {(entry.producer, entry.owner) for entry in entries} == {(PRODUCER, "/transactions/a/1.0")}


def test_a_manifest_that_holds_other_blocks_than_its_znode_says_is_corrupt() -> None:
    """conformance: 26."""
    files = IndexFiles(MemoryFiles())
    files.write_manifest("manifests/00000001-a", [Block("data/00000001-a", 0, 10, 0, 1, 0, 0)])
    manifest = Manifest("manifests/00000001-a", 2, PRODUCER, 0, None)
    with pytest.raises(CorruptDataError, match="manifests/00000001-a"):
        files.tail_entries(TailNode(0, 2, 2, 20, 0, manifest=manifest))


def test_every_file_of_an_index_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)
    built = Built([data(at) for at in range(7)], 2)
    named = list(built.index.files_named(built.files))

    assert {name for name in named if name.startswith("data/")} == {"data/00000001-a"}
    assert len({name for name in named if name.startswith("index/")}) == 4
