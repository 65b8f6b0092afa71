"""What must be true of every log at any time, whatever its clients did and wherever they died; tests end with it.

`check` reads the whole log: all znodes, which it compares with each other, every index entry, and every file with its
CRC-32. Then it settles everything that can be settled, and checks again; this time no owner of a finished transaction
may be left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.payloads import decode_ledger
from oncelog.batches.rules import QueryLedger
from oncelog.coordinator import settler, transactional_ids
from oncelog.coordinator.settler import Settler
from oncelog.errors import OncelogError, ensure
from oncelog.log import partition_reads, topics
from oncelog.log.index_files import IndexFiles
from oncelog.log.segment import read_block
from oncelog.ports import Znode, ZnodeReader
from oncelog.protocol.partition import IndexEntry, Marker, PartitionState
from oncelog.protocol.sequencing import ProducerEntry, sequence_add
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.runtime import Log
from oncelog.signatures import checked
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.walking import paths_below

_DECIDED_STATES = {TxnState.PREPARE_COMMIT: Outcome.COMMIT, TxnState.PREPARE_ABORT: Outcome.ABORT}


@checked
def check(log: Log, *, has_files: bool = True) -> None:
    """Raise AssertionError with every law that the log breaks.

    Args:
        log: as many owners as possible are settled in it.
        has_files: whether the blocks in the index are in real files; tests of pure metadata invent them.
    """
    _hold(violations(log, has_files=has_files))
    settle_all(log)
    _hold(violations(log, has_files=has_files))
    _hold(leaks(log))
    settler.forget_unlisted(log.services.store)
    _hold(leaks(log, before_upkeep=False))


def _hold(broken: list[str]) -> None:
    if broken:
        raise AssertionError("\n".join(["the log breaks its laws:", *broken]))


@checked
def settle_all(log: Log) -> int:
    """Settle everything that can be settled, and return how many owners were settled in some partition."""
    store = log.services.store
    settling = Settler(store, log.services.clock)
    total = 0
    while settled := settling.settle_now(topics.all_partitions(store)):
        total += settled
    return total


@checked
def violations(log: Log, *, has_files: bool = True) -> list[str]:
    """Every law that the log breaks, in words."""
    seen = _read(log)
    found: list[str] = []
    for partition in seen.partitions.values():
        found += _of_partition(seen, partition)
        found += _of_sequences(partition)
        found += _of_producers(partition)
        if has_files:
            found += _of_files(log, partition)
    return [*found, *_of_owners(seen), *_of_transactions(seen), *_of_groups(seen), *_of_ledgers(seen)]


@checked
def leaks(log: Log, *, before_upkeep: bool = True) -> list[str]:
    """Decided owners that still exist although nothing holds them back.

    Args:
        log: settled as far as possible.
        before_upkeep: whether to allow what only upkeep removes: owners that wrote to a deleted topic, and rounds that
            wrote nothing.
    """
    seen = _read(log)
    listed = {span.owner for partition in seen.partitions.values() for span in partition.state.owners}
    is_held_back = any(record.outcome is Outcome.OPEN for record in seen.owners.values())
    remembered = {
        EMBEDDED.round_path(prefix, number)
        for prefix, ledger in seen.ledgers.items()
        for number in (ledger.current_round, ledger.last.round if ledger.last else 0)
    }

    def may_stay(owner: str, record: OwnerRecord) -> bool:
        if record.outcome is Outcome.OPEN or owner in remembered or (owner in listed and is_held_back):
            return True
        is_cut_off = any(path not in seen.partitions for path in record.partitions)
        return before_upkeep and (is_cut_off or (paths.is_round(owner) and owner not in listed))

    return [
        f"{owner}: decided and {'listed' if owner in listed else 'listed nowhere'}, but not gone"
        for owner, record in seen.owners.items()
        if not may_stay(owner, record)
    ]


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass
class _Partition:
    partition: TopicIdPartition
    state: PartitionState
    entries: list[IndexEntry]
    tail_nodes: int
    producers: dict[int, ProducerEntry]

    @property
    def name(self) -> str:
        return str(self.partition)


@dataclass
class _Seen:
    """Everything that the store contains about a log."""

    partitions: dict[str, _Partition] = field(default_factory=dict)
    owners: dict[str, OwnerRecord] = field(default_factory=dict)
    ids: dict[str, TransactionMetadata] = field(default_factory=dict)
    pending: dict[str, list[str]] = field(default_factory=dict)
    ledgers: dict[str, QueryLedger] = field(default_factory=dict)


def _read(log: Log) -> _Seen:
    seen = _Seen()
    files = IndexFiles(log.services.files)
    with log.services.store.snapshot() as reader:
        for partition in topics.all_partitions(reader):
            seen.partitions[paths.partition(partition)] = _read_partition(reader, files, partition)
        for path in paths_below(reader, paths.TRANSACTIONS):
            transactional_id = paths.name_at(path)
            stored = transactional_ids.load(reader, transactional_id)
            ensure(stored is not None, "an id that is listed has metadata", path=path)
            seen.ids[transactional_id] = cast(TransactionMetadata, stored)
            _read_owners(reader, path, seen)
        for path in paths_below(reader, paths.QUERIES):
            seen.ledgers[paths.name_at(path)] = decode_ledger(path, _listed(reader, path).data)
            _read_owners(reader, paths.rounds_of(path), seen)
        for path in _below(reader, paths.GROUPS, 4):
            pending = payloads.decode_group_partition(path, _listed(reader, path).data).pending
            seen.pending[path] = [offset.owner for offset in pending]
    return seen


def _listed(reader: ZnodeReader, path: str) -> Znode:
    znode = reader.get(path)
    ensure(znode is not None, "a znode that is listed is there", path=path)
    return cast(Znode, znode)


def _read_partition(reader: ZnodeReader, files: IndexFiles, partition: TopicIdPartition) -> _Partition:
    state = partition_reads.read_partition(reader, partition)
    index = partition_reads.read_index(reader, partition, state)
    folder = paths.producers(partition)
    producers = {
        int(name): payloads.decode_producer(f"{folder}/{name}", znode.data)
        for name, znode in reader.children_data(folder)
    }
    entries = list(index.entries(files, state.log_start, state.log_end))
    return _Partition(partition, state, entries, len(index.tail), producers)


def _read_owners(reader: ZnodeReader, folder: str, seen: _Seen) -> None:
    for name, znode in reader.children_data(folder):
        seen.owners[f"{folder}/{name}"] = payloads.decode_owner(f"{folder}/{name}", znode.data)


def _below(reader: ZnodeReader, path: str, depth: int) -> Iterator[str]:
    if depth == 0:
        yield path
        return
    for below in paths_below(reader, path):
        yield from _below(reader, below, depth - 1)


# Partitions -----------------------------------------------------------------------------------------------------------


def _of_partition(seen: _Seen, partition: _Partition) -> Iterator[str]:
    name, state, entries = partition.name, partition.state, partition.entries
    if not 0 <= state.log_start <= state.log_end:
        yield f"{name}: log start {state.log_start} beyond log end {state.log_end}"
    if state.tail_nodes != partition.tail_nodes:
        yield f"{name}: {partition.tail_nodes} tail nodes, the partition says {state.tail_nodes}"
    levels = [ref.level for ref in state.roots]
    if levels != sorted(levels, reverse=True):
        yield f"{name}: levels of the roots rise: {levels}"
    size_bytes = sum(e.block.length for e in entries if e.block and e.base_offset >= state.log_start)
    if state.size_bytes != size_bytes:
        yield f"{name}: {size_bytes} bytes in the index, the partition says {state.size_bytes}"
    yield from _of_spans(seen, partition)
    yield from _of_markers(partition)


def _of_spans(seen: _Seen, partition: _Partition) -> Iterator[str]:
    name, state = partition.name, partition.state
    listed = {span.owner: span for span in state.owners}
    if len(listed) != len(state.owners):
        yield f"{name}: an owner is listed twice"
    for owner, span in listed.items():
        written = [e for e in partition.entries if e.owner == owner and e.block]
        if owner not in seen.owners:
            yield f"{name}: lists {owner}, which does not exist"
        elif paths.partition(partition.partition) not in seen.owners[owner].partitions:
            yield f"{name}: lists {owner}, which does not name the partition"
        if not written:
            yield f"{name}: lists {owner}, which wrote nothing that is left"
        elif (span.first, span.last) != (written[0].base_offset, written[-1].end_offset - 1):
            yield f"{name}: the span of {owner} is [{span.first}, {span.last}], its data is not"
        if set(span.producers) != {e.producer for e in written}:
            yield f"{name}: the span of {owner} does not name its producers"


def _of_markers(partition: _Partition) -> Iterator[str]:
    """Every owner's data is listed, or followed by exactly one marker with its outcome."""
    listed = {span.owner for span in partition.state.owners}
    markers: dict[str, list[IndexEntry]] = defaultdict(list)
    written: dict[str, list[IndexEntry]] = defaultdict(list)
    for entry in partition.entries:
        if entry.owner is not None:
            (markers if entry.marker else written)[entry.owner].append(entry)
        elif entry.marker:
            yield f"{partition.name}: the marker at {entry.base_offset} has no owner"
    for owner in written.keys() | markers.keys():
        wrote, ends = written[owner], markers[owner]
        if len(ends) != (0 if owner in listed else 1):
            yield f"{partition.name}: {owner} has {len(ends)} markers and is {'' if owner in listed else 'not '}listed"
        for end in ends:
            marker = cast(Marker, end.marker)
            if any(entry.end_offset > end.base_offset for entry in wrote):
                yield f"{partition.name}: {owner} wrote behind its marker"
            if wrote and marker.first_offset > wrote[0].base_offset:
                yield f"{partition.name}: the marker of {owner} begins behind its data"
            pairs = {entry.producer for entry in wrote}
            if marker.outcome is Outcome.ABORT and not pairs <= set(marker.aborted):
                yield f"{partition.name}: the marker of {owner} does not abort all of it"


def _of_sequences(partition: _Partition) -> Iterator[str]:
    """Each (producer id, epoch) numbers its records without a gap; a transaction begins at 0."""
    last: dict[ProducerIdAndEpoch, IndexEntry] = {}
    for entry in partition.entries:
        if entry.marker:
            continue
        before = last.get(entry.producer)
        if before is not None:
            expected = sequence_add(before.base_sequence, before.count)
            if (entry.base_sequence, entry.owner) != (expected, before.owner):
                yield f"{partition.name}: {entry.producer} goes on with {entry.base_sequence} instead of {expected}"
        elif entry.owner is not None and partition.state.log_start == 0 and entry.base_sequence != 0:
            yield f"{partition.name}: the transaction {entry.producer} begins with sequence {entry.base_sequence}"
        last[entry.producer] = entry


def _of_producers(partition: _Partition) -> Iterator[str]:
    by_pair: dict[ProducerIdAndEpoch, list[IndexEntry]] = defaultdict(list)
    newest: dict[int, int] = {}
    for entry in partition.entries:
        if entry.block:
            by_pair[entry.producer].append(entry)
            producer_id = entry.producer.producer_id
            newest[producer_id] = max(newest.get(producer_id, -1), entry.producer.epoch)
    open_owners = {pair: span.owner for span in partition.state.owners for pair in span.producers}
    for producer_id, kept in partition.producers.items():
        pair = ProducerIdAndEpoch(producer_id, kept.epoch)
        if newest.get(producer_id, kept.epoch) != kept.epoch:
            yield f"{partition.name}: producer {producer_id} wrote in epoch {newest[producer_id]}, kept is {kept.epoch}"
        if kept.open_owner != open_owners.get(pair):
            yield f"{partition.name}: {pair} is kept open for {kept.open_owner}, listed for {open_owners.get(pair)}"
        yield from _of_window(partition, pair, kept, by_pair[pair])
    for pair in by_pair:
        if open_owners.get(pair) and pair.producer_id not in partition.producers:
            yield f"{partition.name}: {pair} has an open transaction and is not kept"


def _of_window(
    partition: _Partition, pair: ProducerIdAndEpoch, kept: ProducerEntry, written: Sequence[IndexEntry]
) -> Iterator[str]:
    """The newest batches in a producer's entry are those of the index."""
    if written and (
        not kept.batches or kept.batches[-1].base_offset + kept.batches[-1].count != written[-1].end_offset
    ):
        yield f"{partition.name}: the newest batch of {pair} is not the one that is kept"
    starts = {entry.base_offset: entry.base_sequence for entry in written}
    for batch in kept.batches:
        is_left = batch.base_offset >= partition.state.log_start
        if is_left and starts.get(batch.base_offset) != batch.first_sequence:
            yield f"{partition.name}: {pair} keeps a batch at {batch.base_offset} that the index does not have"
    if kept.open_first_offset is not None and kept.open_first_offset not in starts:
        yield f"{partition.name}: the transaction of {pair} begins at {kept.open_first_offset}, where it has no data"


def _of_files(log: Log, partition: _Partition) -> Iterator[str]:
    for entry in partition.entries:
        if entry.block is not None:
            try:
                read_block(log.services.files, entry.block)
            except OncelogError as error:
                yield f"{partition.name}: {error}"


# Coordinator ----------------------------------------------------------------------------------------------------------


def _of_owners(seen: _Seen) -> Iterator[str]:
    for owner, record in seen.owners.items():
        if record.outcome is not Outcome.OPEN:
            continue
        for path in record.groups:
            if path not in seen.pending:
                yield f"{owner}: names {path}, which does not exist"
        if paths.is_round(owner):
            prefix, number = paths.round_of(owner)
            if seen.ledgers[prefix].current_round != number:
                yield f"{owner}: open, but it is not the current round of its prefix"
        else:
            stored = seen.ids[paths.transactional_id_of(owner)]
            if stored.state is not TxnState.ONGOING or stored.owner != owner:
                yield f"{owner}: open, but its id is {stored.state} with {stored.owner}"


def _of_transactions(seen: _Seen) -> Iterator[str]:
    for name, stored in seen.ids.items():
        record = seen.owners.get(stored.owner or "")
        outcome = record.outcome if record else None
        if stored.state is TxnState.ONGOING and stored.round is None and outcome is not Outcome.OPEN:
            yield f"{name}: ongoing, but its owner {stored.owner} says {outcome}"
        if stored.state in _DECIDED_STATES and outcome not in (None, _DECIDED_STATES[stored.state]):
            yield f"{name}: {stored.state}, but its owner {stored.owner} says {outcome}"


def _of_groups(seen: _Seen) -> Iterator[str]:
    for path, owners in seen.pending.items():
        for owner in owners:
            if owner not in seen.owners:
                yield f"{path}: has an offset of {owner}, which does not exist"
            elif path not in seen.owners[owner].groups:
                yield f"{path}: has an offset of {owner}, which does not name it"


def _of_ledgers(seen: _Seen) -> Iterator[str]:
    for prefix, ledger in seen.ledgers.items():
        if ledger.last is None:
            continue
        if ledger.last.round > ledger.current_round:
            yield f"{prefix}: the last batch is of round {ledger.last.round}, the current one is {ledger.current_round}"
        record = seen.owners.get(EMBEDDED.round_path(prefix, ledger.last.round))
        if record is None or record.outcome is not Outcome.COMMIT:
            yield f"{prefix}: the round of the last batch is not committed"
