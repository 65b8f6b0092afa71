"""Describes topics and groups for the admin client. coordinator/inspection.py describes transactions and ledgers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from oncelog.arguments import check_name
from oncelog.clients import offset_lookup
from oncelog.clients.services import LogServices
from oncelog.coordinator import groups, inspection
from oncelog.coordinator.groups import GroupDescription
from oncelog.coordinator.inspection import OwnerDescription
from oncelog.errors import UnknownGroupError, UnknownTopicError
from oncelog.log import partition_reads, snapshot, topics
from oncelog.log.index_files import IndexFiles
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import ZnodeStore
from oncelog.protocol import visibility
from oncelog.types import IsolationLevel, TopicIdPartition
from oncelog.znodes.clock import store_now_ms


@dataclass(frozen=True, slots=True)
class TopicListing:
    """One topic. A retention of None keeps records forever."""

    topic: str
    topic_id: str
    partitions: int
    retention_ms: int | None
    retention_bytes: int | None


@dataclass(frozen=True, slots=True)
class UnsettledOwner:
    """A transaction or round with unsettled data in a partition: undecided, or decided and not settled yet.

    Attributes:
        owner: which one it is, its outcome and its age.
        first_offset, last_offset: of its data in this partition, inclusive. Others may have written in between.
    """

    owner: OwnerDescription
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition.

    Attributes:
        log_start, log_end: its offsets are ``[log_start, log_end)``.
        lso: its last stable offset if it is read alone.
        lso_together: its last stable offset for a reader of the whole topic, planned over all partitions.
        size_bytes: total size of its record batches.
        index_roots: number of index files that its znode lists.
        tail_length: number of appends whose index entries are not in index files yet.
        owners: transactions and rounds with unsettled data, in order of their first offset.
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
    """A group's progress in one partition.

    Attributes:
        topic, topic_id, partition: the topic may have been deleted since.
        offset, metadata: as committed; None if the only offset is undecided.
        log_start, lso: of the partition, planned alone; None if the topic was deleted.
        lag: offsets from the committed one to the LSO; 0 if there is nothing but control markers and aborted records,
            which count otherwise. None if either is unknown, or if the offset is beyond the log.
        is_beyond_log: whether the committed offset is beyond the log end, as in an older copy of the log.
        undecided: paths of the undecided owners that hold an offset of the partition.
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
        owning_prefix: transactional-id prefix of the sink that owns the group's offsets; None if no sink does.
        partitions: those that the group has an offset for.
    """

    group_id: str
    owning_prefix: str | None
    partitions: tuple[GroupPartitionProgress, ...]


def list_topics(store: ZnodeStore) -> list[TopicListing]:
    """All topics, by name."""
    with store.snapshot() as reader:
        found = topics.states(reader).items()
    return [
        TopicListing(name, topic.topic_id, topic.partitions, topic.retention_ms, topic.retention_bytes)
        for name, topic in found
    ]


def describe_topic(store: ZnodeStore, name: str) -> TopicDescription:
    """Describe a topic. Raises UnknownTopicError if it does not exist."""
    topic = partition_reads.read_topic(store, name)
    partitions = [TopicIdPartition(name, topic.topic_id, number) for number in range(topic.partitions)]
    seen = snapshot.take(store, partitions)
    owners = _describe_owners(store, seen.owners)
    described = tuple(_describe_partition(seen, partition, owners) for partition in partitions)
    return TopicDescription(name, topic.topic_id, topic.retention_ms, topic.retention_bytes, described)


def _describe_owners(store: ZnodeStore, owners: Collection[str]) -> dict[str, OwnerDescription]:
    if not owners:
        return {}
    now_ms = store_now_ms(store)
    return {owner.path: owner for owner in inspection.describe_owners(store, owners, now_ms)}


def _describe_partition(
    seen: LogSnapshot, partition: TopicIdPartition, owners: Mapping[str, OwnerDescription]
) -> PartitionDescription:
    state = seen.partitions[partition]
    alone = visibility.plan(seen.plan.snapshot_zxid, {partition: state}, seen.owners).ends[partition]
    return PartitionDescription(
        partition=partition.partition,
        log_start=state.log_start,
        log_end=state.log_end,
        lso=max(alone, state.log_start),
        lso_together=seen.end(partition, IsolationLevel.READ_COMMITTED),
        size_bytes=state.size_bytes,
        index_roots=len(state.roots),
        tail_length=state.tail_nodes,
        owners=tuple(
            UnsettledOwner(owners[span.owner], span.first, span.last) for span in state.owners if span.owner in owners
        ),
    )


def describe_group(services: LogServices, group_id: str) -> GroupProgress:
    """Describe a group. Raises UnknownGroupError if it does not exist."""
    found = groups.describe(services.store, [check_name("group id", group_id)]).get(group_id)
    if found is None:
        raise UnknownGroupError("no such consumer group", group_id=group_id)
    partitions = sorted({*found.offsets, *found.undecided})
    index_files = services.new_index_files()
    progress = tuple(_progress(services, index_files, found, partition) for partition in partitions)
    return GroupProgress(group_id, found.owning_prefix, progress)


def _progress(
    services: LogServices, index_files: IndexFiles, group: GroupDescription, partition: TopicIdPartition
) -> GroupPartitionProgress:
    committed = group.offsets.get(partition)
    log_start: int | None = None
    log_end: int | None = None
    lso: int | None = None
    lag: int | None = None
    isolation = IsolationLevel.READ_COMMITTED
    with suppress(UnknownTopicError):  # deleted since
        seen = snapshot.take(services.store, [partition])
        state, lso = seen.partitions[partition], seen.end(partition, isolation)
        log_start, log_end = state.log_start, state.log_end
        if committed is not None:
            lag = offset_lookup.lag(services, index_files, seen, partition, committed.offset, isolation)
    is_beyond_log = committed is not None and log_end is not None and committed.offset > log_end
    return GroupPartitionProgress(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        offset=committed.offset if committed else None,
        metadata=committed.metadata if committed else None,
        log_start=log_start,
        lso=lso,
        lag=None if is_beyond_log else lag,
        is_beyond_log=is_beyond_log,
        undecided=group.undecided.get(partition, ()),
    )
