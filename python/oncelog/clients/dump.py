"""Lists everything that a topic holds: records with the outcome of their transactions, aborted batches and markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from oncelog.arguments import check_number
from oncelog.clients import offset_lookup
from oncelog.clients.fetcher import ConsumerBatch, records_of
from oncelog.clients.services import LogServices
from oncelog.errors import DataLossError, InvariantViolation, UsageError
from oncelog.log import partition_reads, retention, segment, snapshot, topics
from oncelog.log.index import PartitionIndex
from oncelog.ports import ZnodeReader
from oncelog.protocol import visibility
from oncelog.protocol.partition import IndexEntry, OwnerState, PartitionState
from oncelog.protocol.sequencing import sequence_add
from oncelog.types import MAX_LONG, ConsumerRecord, IsolationLevel, Outcome, ProducerIdAndEpoch, TopicIdPartition


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """A record.

    Attributes:
        outcome: of its transaction or micro-batch; None if it was written outside of one.
        producer: who wrote it.
        sequence: its sequence number.
        owner: path of its owner, if it has one.
    """

    record: ConsumerRecord
    outcome: Outcome | None
    producer: ProducerIdAndEpoch
    sequence: int
    owner: str | None


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """An aborted record batch, whose records the isolation level hides."""

    topic: str
    partition: int
    base_offset: int
    count: int
    producer: ProducerIdAndEpoch
    owner: str | None


@dataclass(frozen=True, slots=True)
class DumpedMarker:
    """A control marker.

    Attributes:
        outcome: commit or abort.
        first_offset: the first offset of its transaction in this partition.
        producer: whose transaction it was.
        aborted: the (producer id, epoch) pairs that it declares aborted.
        owner: path of the transaction's owner, which may be gone.
    """

    topic: str
    partition: int
    offset: int
    outcome: Outcome
    first_offset: int
    producer: ProducerIdAndEpoch
    aborted: tuple[ProducerIdAndEpoch, ...]
    owner: str | None


Dumped = DumpedRecord | DumpedBatch | DumpedMarker


@dataclass(frozen=True, slots=True)
class _Range:
    """The offsets to show, with the metadata that says what they hold."""

    partition: TopicIdPartition
    isolation: IsolationLevel
    start: int
    end: int
    state: PartitionState
    index: PartitionIndex
    owners: Mapping[str, OwnerState]


def dump(
    services: LogServices, topic: str, isolation: IsolationLevel, *, number: int | None, start: int | None
) -> Iterator[Dumped]:
    """The entries of a topic's partitions, lazily, one partition after the other: see `Admin.dump`.

    Args:
        isolation: read_committed ends at the partition's last stable offset, and shows an aborted batch as one entry.
            read_uncommitted ends at the log end, and shows the records of aborted and undecided batches.
        number: of the partition to show; None for all.
        start: the first offset; None for the log start.
    """
    store = services.store
    wanted = topics.partitions_of(store, topic) if number is None else [partition_reads.identify(store, topic, number)]
    if start is not None:
        check_number("start", start, least=-MAX_LONG)
        if len(wanted) > 1:
            raise UsageError("a start offset is of one partition: name the partition", topic=topic, start=start)
    entries = [_dump_partition(services, partition, isolation, start) for partition in wanted]
    return (entry for part in entries for entry in part)


def _dump_partition(
    services: LogServices, partition: TopicIdPartition, isolation: IsolationLevel, start: int | None
) -> Iterator[Dumped]:
    end = offset_lookup.latest(services.store, partition, isolation)
    state, index, owners = _read(services, partition)
    first = state.log_start if start is None else start
    retention.check_within(state, partition, first)
    return _entries(services, _Range(partition, isolation, first, end, state, index, owners))


def _read(
    services: LogServices, partition: TopicIdPartition
) -> tuple[PartitionState, PartitionIndex, dict[str, OwnerState]]:
    def read(reader: ZnodeReader) -> tuple[PartitionState, PartitionIndex, dict[str, OwnerState]]:
        state = partition_reads.read_partition(reader, partition)
        index = partition_reads.read_index(reader, partition, state)
        return state, index, snapshot.read_owners(reader, [span.owner for span in state.owners])

    return partition_reads.consistently(services.store, read)


def _entries(services: LogServices, wanted: _Range) -> Iterator[Dumped]:
    """The entries of the index. If a file is removed meanwhile, for good reasons, a newer index continues the list."""
    missed: set[object] = set()
    while wanted.start < wanted.end:
        try:
            for entry, outcome in _decided_entries(services, wanted):
                yield from _shown(services, wanted, entry, outcome)
                wanted = replace(wanted, start=entry.end_offset)
            return
        except DataLossError as error:
            file = error.fields.get("file")
            services.store.sync()
            state, index, owners = _read(services, wanted.partition)
            if file in missed or state.log_start > wanted.start:
                raise
            missed.add(file)
            wanted = replace(wanted, state=state, index=index, owners=owners)


def _decided_entries(services: LogServices, wanted: _Range) -> Iterator[tuple[IndexEntry, Outcome | None]]:
    files = services.new_index_files()
    aborted = visibility.aborted_pairs(wanted.index.aborting_markers(files, wanted.start, wanted.end))
    for entry in wanted.index.entries(files, wanted.start, wanted.end):
        yield entry, visibility.outcome_of(entry, wanted.owners, aborted)


def _shown(services: LogServices, wanted: _Range, entry: IndexEntry, outcome: Outcome | None) -> Iterator[Dumped]:
    if entry.block is None:
        yield _marker(wanted.partition, entry)
    elif outcome is Outcome.ABORT and wanted.isolation is IsolationLevel.READ_COMMITTED:
        tp = wanted.partition
        yield DumpedBatch(tp.topic, tp.partition, entry.base_offset, entry.count, entry.producer, entry.owner)
    else:
        yield from _records(wanted, entry, outcome, segment.read_block(services.files, entry.block))


def _records(
    wanted: _Range, entry: IndexEntry, outcome: Outcome | None, records: pa.RecordBatch
) -> Iterator[DumpedRecord]:
    first = max(wanted.start - entry.base_offset, 0)
    tp = wanted.partition
    batch = ConsumerBatch(tp.topic, tp.partition, entry.base_offset + first, records.slice(first))
    for at, record in enumerate(records_of(batch), start=first):
        yield DumpedRecord(record, outcome, entry.producer, sequence_add(entry.base_sequence, at), entry.owner)


def _marker(partition: TopicIdPartition, entry: IndexEntry) -> DumpedMarker:
    marker = entry.marker
    if marker is None:
        raise InvariantViolation("an index entry has a block or a marker")
    return DumpedMarker(
        partition.topic,
        partition.partition,
        entry.base_offset,
        marker.outcome,
        marker.first_offset,
        entry.producer,
        marker.aborted,
        entry.owner,
    )
