"""What the znodes of one partition say: its bounds, the owners of unsettled data, and its index. Values only.

Every offset in ``[log_start, log_end)`` belongs to exactly one index entry: a record batch in a data file or a control
marker. The newest entries are in the *tail* (one znode per append); older ones were rolled into index files, which the
partition reaches through `IndexRef` roots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog.types import Block, Outcome, ProducerIdAndEpoch, TimestampMs


@dataclass(frozen=True, slots=True)
class TopicState:
    """The znode of a topic.

    Attributes:
        topic_id: of this incarnation; a recreated topic has another and shares nothing.
        partitions: their number.
        retention_ms: records older than this may be removed; None keeps them.
        retention_bytes: oldest data of a partition may be removed beyond this size; None keeps it.
        is_deleted: the topic is being deleted; its name is free once its znodes are gone.
    """

    topic_id: str
    partitions: int
    retention_ms: int | None = None
    retention_bytes: int | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class OwnerSpan:
    """What one owner wrote into one partition and is not settled yet.

    Attributes:
        owner: path of the owner's znode, the only place that says open, commit or abort.
        first, last: its first and last offset here, both inclusive; others may have written between them.
        producers: every (producer id, epoch) under which it wrote here.
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
        aborted: the (producer id, epoch) pairs whose data is dropped: all of them after an abort, the losers of a
            committed micro-batch after a commit. Each pair names one transaction, so the pair alone identifies data.
    """

    outcome: Outcome
    first_offset: int
    aborted: tuple[ProducerIdAndEpoch, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One record batch or one control marker of a partition.

    Attributes:
        base_offset: offset of its first record.
        count: offsets it covers; 1 for a marker.
        producer: who wrote it.
        base_sequence: sequence of its first record; `NO_SEQUENCE` for a marker.
        owner: path of its owner, None for data outside any transaction.
        block: where the records are; None for a marker.
        marker: set for a marker only.
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
    """A subtree of the index in an immutable file; level 0 holds entries, level n refs of level n - 1.

    Attributes:
        file: name of the index file.
        start, end: the offsets it covers, without a gap.
        entries, records, size_bytes: totals below it; `records` and `size_bytes` count data, not markers.
        max_timestamp_ms: of its records, `NO_TIMESTAMP` if it has none.
        aborted_first: the smallest `Marker.first_offset` among its markers with aborted pairs, or None: the range of
            an aborted transaction reaches from there to its marker.
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
    """The blocks of one large append, listed in a file that was written before their offsets were known.

    `producer`, `base_sequence` (of the first record) and `owner` hold for the append as a whole.
    """

    file: str
    blocks: int
    producer: ProducerIdAndEpoch
    base_sequence: int
    owner: str | None


@dataclass(frozen=True, slots=True)
class TailNode:
    """One append that is not rolled yet: its entries, or the manifest that lists its blocks."""

    base_offset: int
    end_offset: int
    records: int
    size_bytes: int
    max_timestamp_ms: int
    entries: tuple[IndexEntry, ...] = ()
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The partition's own znode: everything an append or a plan must compare and set.

    Attributes:
        log_start, log_end: the offsets it holds, ``[log_start, log_end)``.
        trim: the youngest snapshot of ``/commits`` that a settler of this partition used (`visibility.plan`).
        owners: owners with data here that is not settled, in order of their first offset.
        roots: the rolled index, oldest first, levels falling.
        tail_nodes: how many tail znodes there are.
        size_bytes: bytes of the data blocks in ``[log_start, log_end)``.
        is_deleted: the topic is being deleted; nothing may be appended or read any more.
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
        """The state after `owner` wrote the offsets from `first` to `last`."""
        span = self.span_of(owner)
        if span is None:
            return replace(self, owners=(*self.owners, OwnerSpan(owner, first, last, (producer,))))
        producers = span.producers if producer in span.producers else (*span.producers, producer)
        grown = OwnerSpan(owner, span.first, last, producers)
        return replace(self, owners=tuple(grown if listed is span else listed for listed in self.owners))


@dataclass(frozen=True, slots=True)
class OwnerState:
    """What the znode of an owner says.

    Attributes:
        outcome: open until the one write that decides, then unchanged.
        decided_zxid: zxid of that write; of the newest write while open.
        participants: the (producer id, epoch) pairs that a commit makes visible; None when it is all of them.
        partitions, groups: where it is (or was) listed, as znode paths.
    """

    outcome: Outcome
    decided_zxid: int
    participants: frozenset[ProducerIdAndEpoch] | None = None
    partitions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def outcome_for(self, producer: ProducerIdAndEpoch) -> Outcome:
        """Whether what `producer` wrote for this owner is undecided, committed or aborted."""
        if self.outcome is Outcome.COMMIT and self.participants is not None and producer not in self.participants:
            return Outcome.ABORT
        return self.outcome
