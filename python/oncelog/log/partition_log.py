"""One partition as a log: appends, markers, rolling. Appends and markers are part of the caller's step.

Owns the znodes below ``/topics/<t>/<topic id>/<p>``. The caller (coordinator/) decides who may write, and under which
owner. That the owner is open is checked here, in the same compare-and-set as the append.

Order of an append (the numbers are its crash points):
  1  data files are written and fsynced            a crash leaves only orphan files
  2  one multi: offsets, tail node, owner's span, producer's entry, log end
                                                   after it, the batch is appended; a retry finds its own sequence
  3  the tail is rolled if it is long              a crash leaves only an orphan index file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, TypeVar

from oncelog import limits
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    InvalidTxnStateError,
    OncelogError,
    PartitionPinnedError,
    ensure,
)
from oncelog.log import generations, index, partition_reads
from oncelog.log.index_files import IndexFiles
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol import sequencing, visibility
from oncelog.protocol.partition import (
    IndexEntry,
    Manifest,
    Marker,
    OwnerSpan,
    OwnerState,
    PartitionState,
    TailNode,
)
from oncelog.types import NO_SEQUENCE, NO_TIMESTAMP, Block, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads

PARTITIONS_PER_STEP = 50
BLOCKS_PER_STEP = 1000
"""Bound a step of appends to about 500 operations and 200 kB."""


@dataclass(frozen=True, slots=True)
class Append:
    """Record batches to append to one partition together.

    Attributes:
        base_sequence: sequence number of the first record.
        owner: path of the owner; None outside of a transaction.
        blocks: the record batches, in order; already durable.
        manifest_file: the file that lists `blocks` if they are too many for a znode; already durable.
    """

    partition: TopicIdPartition
    producer: ProducerIdAndEpoch
    base_sequence: int
    owner: str | None
    blocks: tuple[Block, ...]
    manifest_file: str | None = None

    @property
    def count(self) -> int:
        return sum([block.count for block in self.blocks])

    @property
    def files(self) -> set[str]:
        named = {block.file for block in self.blocks}
        return named | {self.manifest_file} if self.manifest_file else named


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append: its offset, whether it was there before, and the partition's number of tail nodes."""

    base_offset: int
    is_duplicate: bool
    tail_nodes: int


class HasBlocks(Protocol):
    """An append, or something that becomes one."""

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    @property
    def manifest_file(self) -> str | None: ...


B = TypeVar("B", bound=HasBlocks)


# Appending ------------------------------------------------------------------------------------------------------------


def write_manifests(
    store: ZnodeStore, files: IndexFiles, blocks: Mapping[TopicIdPartition, Sequence[Block]]
) -> dict[TopicIdPartition, str]:
    """Write a manifest for each partition with too many blocks for a znode; returns the files' names."""
    long = {partition: listed for partition, listed in blocks.items() if len(listed) > limits.INLINE_BLOCKS_MAX}
    generation = generations.current(store) if long else 0
    written = {}
    for partition, listed in long.items():
        written[partition] = generations.new_name(generations.MANIFESTS, generation)
        files.write_manifest(written[partition], listed)
    return written


def in_steps(groups: Iterable[Sequence[B]]) -> Iterator[list[B]]:
    """Divide appends into steps of bounded size. Those of one group stay together."""
    step: list[B] = []
    inline = 0
    for group in groups:
        added = sum(len(part.blocks) for part in group if part.manifest_file is None)
        if step and (len(step) + len(group) > PARTITIONS_PER_STEP or inline + added > BLOCKS_PER_STEP):
            yield step
            step, inline = [], 0
        step += group
        inline += added
    if step:
        yield step


def append_all(view: ZnodeView, requests: Sequence[Append]) -> list[Appended]:
    """Append to several partitions in one step; see `append`."""
    read_for(view, requests)
    return [append(view, request) for request in requests]


def read_for(view: ZnodeView, requests: Sequence[Append], also: Iterable[str] = ()) -> None:
    """Read all znodes at once that `append` will read for `requests`: see `read_ahead`."""
    read_ahead(view, ((request.partition, [request.producer.producer_id]) for request in requests), also)


def read_ahead(
    view: ZnodeView, appending: Iterable[tuple[TopicIdPartition, Iterable[int]]], also: Iterable[str] = ()
) -> None:
    """Read all znodes at once that appends will read one by one: on ZooKeeper, each would be a round trip.

    Args:
        appending: partitions, with the producer ids that append to them.
        also: other znodes that the step will read.
    """
    of_each = (
        [paths.partition(partition), paths.tail(partition), *(paths.producer(partition, id_) for id_ in producer_ids)]
        for partition, producer_ids in appending
    )
    view.get_many([*also, paths.GENERATION, *chain.from_iterable(of_each)])


def append(view: ZnodeView, request: Append, *, commits: bool = False) -> Appended:
    """Append record batches to one partition, in the caller's step.

    Afterwards the caller must call `roll_if_long`.

    Args:
        commits: whether the append is its owner's whole transaction and commits it. Then the same step also writes the
            marker, nothing is left to settle, and the owner never has a znode.

    Raises:
        ProducerFencedError, OutOfOrderSequenceError: see protocol/sequencing.py.
        InvalidTxnStateError: the owner is decided, or was never created.
        StaleFileError: a data file is too old to be named.
        PartitionPinnedError: the partition has too many unsettled transactions.
    """
    is_one_node = request.owner is not None and request.manifest_file is None
    ensure(is_one_node or not commits, "a marker goes into the tail node of its owner's records")
    partition, path = request.partition, paths.partition(request.partition)
    state = partition_reads.read_partition(view, partition)
    producer_path = paths.producer(partition, request.producer.producer_id)
    producer_znode = view.get(producer_path)
    entry = payloads.decode_producer(producer_path, producer_znode.data) if producer_znode else None
    verdict = sequencing.check_append(
        entry, request.producer, request.base_sequence, request.count, transactional=request.owner is not None
    )
    if isinstance(verdict, sequencing.Duplicate):
        return Appended(verdict.base_offset, is_duplicate=True, tail_nodes=state.tail_nodes)
    owner = None if commits else request.owner  # the owner to list until it is settled
    if owner is not None:
        _check_owner_is_open(view, owner, partition)
    generations.check_fresh(view, request.files)
    first = state.log_end
    node = _tail_node(request, first, commits=commits)
    grown = replace(
        state,
        log_end=node.end_offset,
        tail_nodes=state.tail_nodes + 1,
        size_bytes=state.size_bytes + node.size_bytes,
    )
    if owner is not None:
        grown = grown.extended_by(owner, request.producer, first, node.end_offset - 1)
    data = payloads.encode_partition(grown)
    if owner is not None and state.span_of(owner) is None:
        _check_not_pinned(state, len(data), partition)
    view.set(path, data)
    view.create_blind(paths.tail_node(partition, first), payloads.encode_tail_node(node))
    after = sequencing.after_append(
        entry, request.producer, request.base_sequence, request.count, base_offset=first, owner=owner
    )
    write = view.set if producer_znode else view.create
    write(producer_path, payloads.encode_producer(after))
    return Appended(first, is_duplicate=False, tail_nodes=grown.tail_nodes)


def _check_owner_is_open(view: ZnodeView, owner: str, partition: TopicIdPartition) -> None:
    state = partition_reads.read_owner(view, owner)
    if state is None or state.outcome is not Outcome.OPEN:
        raise InvalidTxnStateError(
            "the transaction was already decided; nothing more can be written to it",
            owner=owner,
            outcome=state.outcome.value if state else "settled",
            partition=str(partition),
        )


def _check_not_pinned(state: PartitionState, grown_bytes: int, partition: TopicIdPartition) -> None:
    """Refuse one more owner if the partition lists too many, or if its znode would be too large."""
    if state.owners and (len(state.owners) >= limits.MAX_UNSETTLED_OWNERS or grown_bytes > limits.MAX_PARTITION_BYTES):
        raise PartitionPinnedError(
            "too many unsettled transactions in this partition; the named one may hold back the others: let it finish, "
            "or abort it with `oncelog txn abort`",
            partition=str(partition),
            owner=min(state.owners, key=lambda span: span.first).owner,
            unsettled=len(state.owners),
        )


def _tail_node(request: Append, base_offset: int, *, commits: bool) -> TailNode:
    blocks, count = request.blocks, request.count
    entries: tuple[IndexEntry, ...] = ()
    manifest = None
    if request.manifest_file is None:
        entries = tuple(_entries(request, base_offset, commits=commits))
    else:
        manifest = Manifest(request.manifest_file, len(blocks), request.producer, request.base_sequence, request.owner)
    return TailNode(
        base_offset=base_offset,
        end_offset=entries[-1].end_offset if entries else base_offset + count,
        records=count,
        size_bytes=sum([block.length for block in blocks]),
        max_timestamp_ms=max([block.max_timestamp_ms for block in blocks]),
        entries=entries,
        manifest=manifest,
    )


def _entries(request: Append, base_offset: int, *, commits: bool) -> Iterator[IndexEntry]:
    offset, sequence = base_offset, request.base_sequence
    for block in request.blocks:
        yield IndexEntry(offset, block.count, request.producer, sequence, request.owner, block, None)
        offset += block.count
        sequence = sequencing.sequence_add(sequence, block.count)
    if commits:
        marker = Marker(Outcome.COMMIT, base_offset, aborted=())
        yield IndexEntry(offset, 1, request.producer, NO_SEQUENCE, request.owner, None, marker)


def append_markers(
    view: ZnodeView, partition: TopicIdPartition, settled: Sequence[tuple[OwnerSpan, OwnerState]], snapshot_zxid: int
) -> None:
    """Write a control marker for each decided owner, take it off the list, and raise the trim to `snapshot_zxid`.

    Args:
        settled: the spans of these owners in the partition, with their decided states.
    """
    state = partition_reads.read_partition(view, partition)
    offset = state.log_end
    entries = [_marker_entry(offset + at, span, owner) for at, (span, owner) in enumerate(settled)]
    node = TailNode(offset, offset + len(entries), 0, 0, NO_TIMESTAMP, tuple(entries))
    names = {span.owner for span, _ in settled}
    state = replace(
        state,
        log_end=node.end_offset,
        trim=max(state.trim, snapshot_zxid),
        tail_nodes=state.tail_nodes + 1,
        owners=tuple(span for span in state.owners if span.owner not in names),
    )
    view.set(paths.partition(partition), payloads.encode_partition(state))
    view.create_blind(paths.tail_node(partition, offset), payloads.encode_tail_node(node))
    for span, _ in settled:
        for producer in span.producers:
            _close_transaction(view, paths.producer(partition, producer.producer_id), span.owner)


def _close_transaction(view: ZnodeView, producer_path: str, owner: str) -> None:
    znode = view.get(producer_path)
    if znode is None:
        return
    before = payloads.decode_producer(producer_path, znode.data)
    after = sequencing.after_marker(before, owner)
    if after is not before:
        view.set(producer_path, payloads.encode_producer(after))


def _marker_entry(offset: int, span: OwnerSpan, owner: OwnerState) -> IndexEntry:
    ensure(owner.outcome is not Outcome.OPEN, "a marker is written for a decided owner only", owner=span.owner)
    marker = Marker(owner.outcome, span.first, visibility.losing_pairs(span, owner))
    return IndexEntry(offset, 1, span.producers[-1], NO_SEQUENCE, span.owner, None, marker)


# Rolling --------------------------------------------------------------------------------------------------------------


def roll(store: ZnodeStore, files: IndexFiles, partition: TopicIdPartition) -> bool:
    """Move the tail of `partition` into index files; returns whether this call did it.

    Several processes may run it at once: one succeeds, and the files of the others are orphans.
    """

    def read(reader: ZnodeReader) -> tuple[PartitionState, tuple[TailNode, ...], int]:
        state = partition_reads.read_partition(reader, partition)
        tail = partition_reads.read_index(reader, partition, state).tail[: 2 * limits.TAIL_MAX_ENTRIES]
        return state, tail, generations.current(reader)

    state, tail, generation = partition_reads.consistently(store, read)  # another process may roll between two reads
    if not tail:
        return False
    roots = index.rolled(files, state.roots, tail, lambda: generations.new_name(generations.INDEX, generation))

    def step(view: ZnodeView) -> bool:
        now = partition_reads.read_partition(view, partition)
        if (now.roots, now.log_start) != (state.roots, state.log_start):
            return False
        generations.check_fresh(view, {ref.file for ref in roots if ref not in state.roots})
        rolled_nodes = [paths.tail_node(partition, node.base_offset) for node in tail]
        view.get_many(rolled_nodes)  # each delete reads its znode; on ZooKeeper, one round trip instead of one each
        for path in rolled_nodes:
            view.delete(path)
        rolled_state = replace(now, roots=roots, tail_nodes=now.tail_nodes - len(tail))
        view.set(paths.partition(partition), payloads.encode_partition(rolled_state))
        return True

    reach(CrashPoint.ROLL)
    is_rolled = store.transact(step)
    reach(CrashPoint.ROLLED)
    return is_rolled


def roll_if_long(store: ZnodeStore, files: IndexFiles, partition: TopicIdPartition, tail_nodes: int) -> None:
    """Roll the tail if it is too long. Errors are ignored: the append has succeeded, and the next one rolls again."""
    if tail_nodes >= limits.TAIL_MAX_ENTRIES:
        with suppress(OncelogError):
            roll(store, files, partition)
