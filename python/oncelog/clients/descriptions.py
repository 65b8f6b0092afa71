"""What the admin client answers about topics, groups and upkeep: values only.

Those of transactions and ledgers are in coordinator/inspection.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.coordinator.inspection import OwnerDescription, RoundName
from oncelog.coordinator.sweeper import Overdue
from oncelog.log.collection import Collected
from oncelog.log.retention import Removed


@dataclass(frozen=True, slots=True)
class TopicListing:
    """One topic; its retention is None where data is kept for ever."""

    topic: str
    topic_id: str
    partitions: int
    retention_ms: int | None
    retention_bytes: int | None


@dataclass(frozen=True, slots=True)
class UnsettledOwner:
    """A transaction or round that a partition lists: undecided, or decided and not settled yet.

    Attributes:
        owner: who it is, its outcome and age.
        first_offset, last_offset: of what it wrote here, both inclusive; others may have written between them.
    """

    owner: OwnerDescription
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition.

    Attributes:
        partition: its number.
        log_start, log_end: the offsets it holds, ``[log_start, log_end)``.
        lso: its last stable offset, planned alone.
        lso_together: planned together with all partitions of the topic: where a reader of the whole topic ends.
        size_bytes: of its record batches.
        index_roots: index files that its znode lists.
        tail_length: appends whose index entries are not in index files yet.
        owners: unsettled, in order of their first offset.
    """

    partition: int
    log_start: int
    log_end: int
    lso: int
    lso_together: int
    size_bytes: int
    index_roots: int
    tail_length: int
    owners: tuple[UnsettledOwner, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions."""

    topic: str
    topic_id: str
    retention_ms: int | None
    retention_bytes: int | None
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class GroupPartitionProgress:
    """How far a group is in one partition.

    Attributes:
        topic, topic_id, partition: of the partition; the topic may have been deleted since.
        offset, metadata: committed; None where the only offset is undecided.
        log_start, lso: of the partition, planned alone; None when it is gone.
        lag: offsets between the committed one and the LSO, control markers included; None when either is unknown, or
            the offset is beyond the log.
        is_beyond_log: whether the log ends before the committed offset: it is an older copy than the group read.
        undecided: paths of the open owners that hold an offset of the partition.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int | None
    metadata: str | None
    log_start: int | None
    lso: int | None
    lag: int | None
    is_beyond_log: bool
    undecided: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """One consumer group.

    Attributes:
        owning_prefix: transactional-id prefix of the sink that owns the group's offsets, if one does.
        partitions: those it has an offset of.
    """

    group_id: str
    owning_prefix: str | None
    partitions: tuple[GroupPartitionProgress, ...]


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """What an operator's abort did.

    Attributes:
        transactional_id: the id that was named.
        round: the micro-batch's round that was aborted in its stead, with all its participants.
        was_open: False when it was aborted before.
    """

    transactional_id: str
    round: RoundName | None
    was_open: bool


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What one round of upkeep did, or (files and records, with `dry_run`) would do.

    Attributes:
        timed_out: transactions and rounds that were aborted because they were overdue.
        removed: what retention took out of partitions.
        expired_transactional_ids, expired_groups: gone, or (groups) with fewer offsets.
        expired_producers: idle producers that partitions forgot.
        collected: files.
    """

    timed_out: tuple[Overdue, ...]
    removed: tuple[Removed, ...]
    expired_transactional_ids: tuple[str, ...]
    expired_groups: tuple[str, ...]
    expired_producers: int
    collected: Collected
