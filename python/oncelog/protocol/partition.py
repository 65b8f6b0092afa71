"""The values in the znodes of a topic and its partitions: bounds, owners of unsettled data, and the index.

Every offset in ``[log_start, log_end)`` belongs to exactly one index entry: a record batch in a data file, or a control
marker. The newest entries are in the *tail*, one znode per append. Older entries were rolled into index files, which
the partition names by its roots (`IndexRef`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog.types import Block, Outcome, ProducerIdAndEpoch, TimestampMs


@dataclass(frozen=True, slots=True)
class TopicState:
    """The configuration of a topic, as in its znode.

    Attributes:
        topic_id: a topic that is created again under the same name has another one.
        partitions: their number.
        retention_ms: records older than this may be removed; None keeps them.
        retention_bytes: when a partition is larger than this, its oldest records may be removed; None keeps them.
        is_deleted: whether the topic was deleted, and its znode is a tombstone. A new topic may have its name.
    """

    topic_id: str
    partitions: int
    retention_ms: int | None = None
    retention_bytes: int | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class OwnerSpan:
    """An owner's unsettled data in one partition.

    Attributes:
        owner: path of the owner's znode, which has its outcome.
        first, last: its first and last offset in the partition, inclusive. Others may have written in between.
        producers: all (producer id, epoch) pairs with which it wrote to the partition.
    """

    owner: str
    first: int
    last: int
    producers: tuple[ProducerIdAndEpoch, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """A control marker: the end of one owner's data in one partition.

    Attributes:
        outcome: commit or abort.
        first_offset: the owner's first offset in the partition.
        aborted: the (producer id, epoch) pairs whose data is aborted: all after an abort; after the commit of a
            micro-batch, its losers. A pair identifies exactly one transaction, and therefore its data.
    """

    outcome: Outcome
    first_offset: int
    aborted: tuple[ProducerIdAndEpoch, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One record batch or one control marker of a partition.

    Attributes:
        base_offset: its first offset.
        count: number of its offsets; 1 for a marker.
        base_sequence: sequence number of the first record; `NO_SEQUENCE` for a marker.
        owner: path of its owner; None for data outside of a transaction.
        block: None for a marker.
        marker: None for a record batch.
    """

    base_offset: int
    count: int
    producer: ProducerIdAndEpoch
    base_sequence: int
    owner: str | None
    block: Block | None
    marker: Marker | None

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


@dataclass(frozen=True, slots=True)
class IndexRef:
    """A ref to an index file, the root of a subtree. A file of level 0 has entries, one of level n refs of level n - 1.

    Attributes:
        file: name of the index file.
        start, end: the offsets that it covers, without gaps.
        entries, records, size_bytes: totals of the subtree; `records` and `size_bytes` do not count markers.
        max_timestamp_ms: of its records; `NO_TIMESTAMP` if it has none.
        aborted_first: the lowest `Marker.first_offset` of its markers with aborted pairs, or None. The range of an
            aborted transaction is from there to its marker.
    """

    file: str
    level: int
    start: int
    end: int
    entries: int
    records: int
    size_bytes: int
    max_timestamp_ms: TimestampMs
    aborted_first: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The blocks of one large append, in a file that was written before their offsets were known.

    `producer`, `base_sequence` (of the first record) and `owner` are those of the whole append.
    """

    file: str
    blocks: int
    producer: ProducerIdAndEpoch
    base_sequence: int
    owner: str | None


@dataclass(frozen=True, slots=True)
class TailNode:
    """An append that is not rolled yet: its entries, or the manifest with its blocks."""

    base_offset: int
    end_offset: int
    records: int
    size_bytes: int
    max_timestamp_ms: int
    entries: tuple[IndexEntry, ...] = ()
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition, as in its znode: everything that an append or a plan must compare and set.

    Attributes:
        log_start, log_end: its offsets are ``[log_start, log_end)``.
        trim: the newest zxid of ``/commits`` that a settler of this partition used (`visibility.plan`).
        owners: owners with unsettled data in the partition, in order of their first offset.
        roots: the rolled index, oldest first, with falling levels.
        tail_nodes: number of tail znodes.
        size_bytes: total size of the blocks in ``[log_start, log_end)``.
        is_deleted: whether the topic is being deleted. Then nothing may be appended or read.
    """

    log_start: int = 0
    log_end: int = 0
    trim: int = 0
    owners: tuple[OwnerSpan, ...] = ()
    roots: tuple[IndexRef, ...] = ()
    tail_nodes: int = 0
    size_bytes: int = 0
    is_deleted: bool = False

    def span_of(self, owner: str) -> OwnerSpan | None:
        return next((span for span in self.owners if span.owner == owner), None)

    def extended_by(self, owner: str, producer: ProducerIdAndEpoch, first: int, last: int) -> PartitionState:
        """The state after `owner` wrote the offsets from `first` to `last`, inclusive."""
        span = self.span_of(owner)
        if span is None:
            return replace(self, owners=(*self.owners, OwnerSpan(owner, first, last, (producer,))))
        producers = span.producers if producer in span.producers else (*span.producers, producer)
        grown = OwnerSpan(owner, span.first, last, producers)
        return replace(self, owners=tuple(grown if listed is span else listed for listed in self.owners))


@dataclass(frozen=True, slots=True)
class OwnerState:
    """The state of an owner, from its znode.

    Attributes:
        outcome: open until the write that decides it, then unchanged.
        decided_zxid: zxid of that write; of the last write while it is open.
        participants: the (producer id, epoch) pairs that a commit makes visible; None for all.
        partitions, groups: znode paths of the partitions and group partitions that list or listed it.
    """

    outcome: Outcome
    decided_zxid: int
    participants: frozenset[ProducerIdAndEpoch] | None = None
    partitions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def outcome_for(self, producer: ProducerIdAndEpoch) -> Outcome:
        """The outcome of what `producer` wrote for this owner. A pair that is no participant is aborted by a commit."""
        if self.outcome is Outcome.COMMIT and self.participants is not None and producer not in self.participants:
            return Outcome.ABORT
        return self.outcome
