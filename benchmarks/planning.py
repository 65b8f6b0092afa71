"""Planning a micro-batch behind long histories of index entries: the cost must be that of the new data."""

from __future__ import annotations

import time
from pathlib import Path

import oncelog
from benchmarks.report import Finding, at_most, median
from oncelog.log import generations, index, snapshot, topics
from oncelog.log.index_files import IndexFiles
from oncelog.ports import ZnodeView
from oncelog.protocol.partition import IndexEntry, IndexRef, PartitionState, TailNode
from oncelog.types import Block, IsolationLevel, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads

EXPLANATION = """\
A reader plans a partition whose history has the given number of index entries: it determines the last stable offset,
and then the visible blocks of the 100 newest entries. Each run takes a fresh reader, so nothing is cached. The peer is
the same plan after 1,000 entries."""

HISTORIES = (1_000, 100_000, 1_000_000)
NEW_ENTRIES = 100
ROWS = 10
PRODUCER = ProducerIdAndEpoch(1, 0)


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure each history; the largest only in the full run."""
    histories = HISTORIES[:2] if quick else HISTORIES
    log = oncelog.open(folder / "log")
    partitions = {entries: make_history(log, entries) for entries in histories}
    times: dict[int, list[float]] = {entries: [] for entries in histories}
    for _ in range(30):
        for entries, partition in partitions.items():
            times[entries].append(plan(log, partition))
    log.close()
    least = median(times[histories[0]])
    return [
        at_most(
            f"planning behind {entries:,} entries",
            f"{median(times[entries]) * 1000:.1f} ms",
            f"{least * 1000:.1f} ms behind 1,000",
            median(times[entries]) / least,
            1.5,
        )
        for entries in histories[1:]
    ]


def topic_of(entries: int) -> str:
    """The topic of a history of so many entries."""
    return f"t{entries}"


def make_history(log: oncelog.Log, count: int, rows: int = ROWS) -> TopicIdPartition:
    """A topic with one partition whose index holds `count` rolled entries of `rows` records, and new ones in the tail.

    The timestamp of each record is its offset.
    """
    name = topic_of(count)
    log.create_topic(name)
    store = log.services.store
    partition = topics.partitions_of(store, name)[0]
    generation = generations.current(store)
    files = IndexFiles(log.services.files)
    roots: tuple[IndexRef, ...] = ()
    for start in range(0, count, 250):
        node = _tail_node(start * rows, min(250, count - start), rows)
        roots = index.rolled(files, roots, [node], lambda: generations.new_name(generations.INDEX, generation))
    tail = [_tail_node((count + at) * rows, 1, rows) for at in range(NEW_ENTRIES)]
    state = PartitionState(log_end=tail[-1].end_offset, roots=roots, tail_nodes=len(tail))

    def write(view: ZnodeView) -> None:
        view.set(paths.partition(partition), payloads.encode_partition(state))
        for node in tail:
            view.create(paths.tail_node(partition, node.base_offset), payloads.encode_tail_node(node))

    store.transact(write)
    return partition


def _tail_node(base_offset: int, count: int, rows: int) -> TailNode:
    offsets = [base_offset + at * rows for at in range(count)]
    entries = tuple(
        IndexEntry(offset, rows, PRODUCER, 0, None, made_up_block(offset, rows), None) for offset in offsets
    )
    end_offset = base_offset + count * rows
    return TailNode(base_offset, end_offset, count * rows, count * 99, end_offset - 1, entries)


def made_up_block(offset: int, rows: int) -> Block:
    """A block of records whose timestamps are their offsets, in a file that is not there."""
    return Block(f"data/00000001-{offset}.avro", 0, 99, 0, rows, offset, offset + rows - 1)


def plan(log: oncelog.Log, partition: TopicIdPartition, rows: int = ROWS) -> float:
    """Plan the newest entries; returns the seconds it took."""
    started = time.perf_counter()
    isolation = IsolationLevel.READ_COMMITTED
    store = log.services.store
    end = snapshot.take(store, [partition]).end(partition, isolation)
    files = IndexFiles(log.services.files)
    found = snapshot.visible_range(store, files, partition, end - NEW_ENTRIES * rows, end, isolation)
    elapsed = time.perf_counter() - started
    if found.count != NEW_ENTRIES * rows:
        raise RuntimeError(f"the plan found {found.count} rows")
    return elapsed
