"""What a reader finds through rolled index files and tail nodes is what a plain list of all appends holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import limits
from oncelog.errors import DataLossError
from oncelog.log import index, snapshot
from oncelog.log.index import PartitionIndex
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, Manifest, Marker, PartitionState, TailNode
from oncelog.types import NO_TIMESTAMP, Block, IsolationLevel, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from tests.support.log.logs import MemoryFiles

PARTITION = TopicIdPartition("flights", "0a1b", 0)
OWNER = "/transactions/copier/7.0"


@dataclass(frozen=True)
class Step:
    """One append: record batches of one transaction, with a marker behind them or none; or a roll of the tail."""

    rows: tuple[int, ...]
    outcome: Outcome | None
    in_manifest: bool = False
    rolls: bool = False


steps = st.lists(
    st.builds(
        Step,
        st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
        st.sampled_from([None, Outcome.COMMIT, Outcome.ABORT]),
        st.booleans(),
        st.integers(0, 3).map(lambda drawn: drawn == 0),
    ),
    min_size=1,
    max_size=12,
)


class Partition:
    """A partition whose znodes and files are written as appends, settlers and rolls would; and the same as a list.

    Attributes:
        rows: of every offset the place of its record in its block, and whether it is aborted; None for a marker.
    """

    def __init__(self) -> None:
        self.memory = MemoryFiles()
        self.files = IndexFiles(self.memory)
        self.roots: tuple[IndexRef, ...] = ()
        self.tail: list[TailNode] = []
        self.rows: list[tuple[Block, int, bool] | None] = []
        self._names = count()

    def append(self, step: Step) -> None:
        base = len(self.rows)
        producer = ProducerIdAndEpoch(7, base)  # each transaction has an epoch of its own
        blocks = [Block("data/00000001-a", 100 * next(self._names), 9, 0, rows, base, base) for rows in step.rows]
        is_aborted = step.outcome is Outcome.ABORT
        self.rows += [(block, row, is_aborted) for block in blocks for row in range(block.count)]
        owner = None if step.outcome is None else OWNER
        bounds = (base, len(self.rows), len(self.rows) - base, 9 * len(blocks), base)
        if step.in_manifest:
            name = f"manifests/00000001-{next(self._names)}"
            self.files.write_manifest(name, blocks)
            self.tail.append(TailNode(*bounds, manifest=Manifest(name, len(blocks), producer, 0, owner)))
        else:
            offsets = [base + sum(step.rows[:at]) for at in range(len(blocks))]
            entries = zip(offsets, blocks, strict=True)
            self.tail.append(
                TailNode(*bounds, tuple(IndexEntry(at, b.count, producer, 0, owner, b, None) for at, b in entries))
            )
        if step.outcome is not None:
            marker = Marker(step.outcome, base, (producer,) if is_aborted else ())
            entry = IndexEntry(len(self.rows), 1, producer, -1, OWNER, None, marker)
            self.tail.append(TailNode(entry.base_offset, entry.end_offset, 0, 0, NO_TIMESTAMP, (entry,)))
            self.rows.append(None)
        if step.rolls:
            self.roots = index.rolled(self.files, self.roots, self.tail, lambda: f"index/00000001-{next(self._names)}")
            self.tail = []

    def store(self, log_start: int) -> MemoryZnodeStore:
        """Its znodes."""
        state = PartitionState(log_start, len(self.rows), 0, (), self.roots, len(self.tail), 0)
        tail = {paths.tail_node(PARTITION, node.base_offset): payloads.encode_tail_node(node) for node in self.tail}
        store = MemoryZnodeStore()

        def create(view: object) -> None:
            folder = ""
            for part in paths.partition(PARTITION).split("/")[1:-1]:
                folder = f"{folder}/{part}"
                view.create(folder)  # type: ignore[attr-defined]
            view.create(paths.partition(PARTITION), payloads.encode_partition(state))  # type: ignore[attr-defined]
            view.create(paths.tail(PARTITION))  # type: ignore[attr-defined]
            for path, data in tail.items():
                view.create(path, data)  # type: ignore[attr-defined]

        store.transact(create)
        return store


@pytest.fixture(scope="module", autouse=True)
def _levels_after_few_rolls() -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "INDEX_FANOUT", 3)
        yield


def built(history: list[Step]) -> Partition:
    partition = Partition()
    for step in history:
        partition.append(step)
    return partition


@given(steps, st.sampled_from(IsolationLevel), st.data())
def test_a_range_shows_the_rows_of_the_list_that_its_isolation_shows(
    history: list[Step], isolation: IsolationLevel, data: st.DataObject
) -> None:
    """conformance: 29, 36."""
    partition = built(history)
    start = data.draw(st.integers(0, len(partition.rows)), label="start")
    end = data.draw(st.integers(start, len(partition.rows)), label="end")
    most = data.draw(st.none() | st.integers(1, 6), label="max_records")

    found = snapshot.visible_range(
        partition.store(0), IndexFiles(partition.memory), PARTITION, start, end, isolation, max_records=most
    )

    wanted = [
        (offset, row[:2])
        for offset, row in enumerate(partition.rows)
        if start <= offset < end and row is not None and not (row[2] and isolation is IsolationLevel.READ_COMMITTED)
    ]
    shown = [
        (piece.base_offset + row, (piece.block, row))
        for piece in found.slices
        for row in range(piece.first_row, piece.end_row)
    ]
    assert shown == wanted[:most]
    if most is not None and len(wanted) > most:
        assert shown[-1][0] < found.end <= wanted[most][0]
    else:
        assert found.end == end


@given(steps, st.data())
def test_what_lies_below_the_log_start_or_beyond_its_end_is_lost_and_not_empty(
    history: list[Step], data: st.DataObject
) -> None:
    """conformance: 40."""
    partition = built(history)
    log_start = data.draw(st.integers(1, len(partition.rows)))
    store, files = partition.store(log_start), IndexFiles(partition.memory)

    for start, end in ((log_start - 1, len(partition.rows)), (log_start, len(partition.rows) + 1)):
        with pytest.raises(DataLossError):
            snapshot.visible_range(store, files, PARTITION, start, end, IsolationLevel.READ_COMMITTED)


@given(steps)
def test_every_file_of_an_index_is_named_and_no_other(history: list[Step]) -> None:
    partition = built(history)
    named = set(PartitionIndex(partition.roots, tuple(partition.tail)).files_named(partition.files))

    leaves = {name for name in partition.memory.contents if name.startswith("index/")}
    in_tail = {node.manifest.file for node in partition.tail if node.manifest}
    assert named == leaves | in_tail | {"data/00000001-a"}
