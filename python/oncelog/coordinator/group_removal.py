"""Deletes consumer groups for an operator, and expires their offsets by age or because their topics were deleted.

The versions of a group's znodes order its commits, so they are not deleted at once: they are emptied, and deleted after
`limits.TOMBSTONE_MS` (znodes/transact.py says why). An offset in an undecided transaction must never be removed
(conformance law 48). Crash points: between any two steps, some offsets are left; the next run continues.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from oncelog import limits
from oncelog.coordinator import groups
from oncelog.errors import TransactConflictError, UnknownGroupError, UnstableOffsetCommitError
from oncelog.log import topics
from oncelog.ports import Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.group_offsets import GroupPartitionState
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import GroupRecord
from oncelog.znodes.rules import parent_of
from oncelog.znodes.transact import in_parts

PARTITIONS_PER_STEP = 200
DELETE_ATTEMPTS = 10

_EMPTY = GroupPartitionState()


def delete(store: ZnodeStore, group_id: str) -> None:
    """Delete a group: all its offsets, and the mark of the sink that owns it.

    Raises:
        UnknownGroupError: the group does not exist.
        UnstableOffsetCommitError: an undecided transaction holds offsets of the group.
        TransactConflictError: its consumers keep committing; stop them first.
    """
    for _ in range(DELETE_ATTEMPTS):
        with store.snapshot() as reader:
            partitions = groups.partitions_of(reader, group_id)
            _check_deletable(reader, group_id, partitions)
            group = reader.get(paths.group(group_id))
        for some in _chunks(partitions):
            in_parts(some, lambda part: store.transact(lambda view: _empty(view, group_id, part)))
        if store.transact(lambda view, group=group: _bury_unless_moved(view, group_id, group)):  # type: ignore[misc]
            return
    raise TransactConflictError("the group's consumers keep committing offsets; stop them first", group_id=group_id)


def _empty(view: ZnodeView, group_id: str, partitions: Sequence[TopicIdPartition]) -> None:
    _check_deletable(view, group_id, partitions)
    for partition in partitions:
        if _state(view, group_id, partition) != _EMPTY:
            view.set(paths.group_partition(group_id, partition), payloads.encode_group_partition(_EMPTY))


def _bury_unless_moved(view: ZnodeView, group_id: str, seen: Znode | None) -> bool:
    """Mark the group as deleted, unless it changed: every commit sets its znode, and may come after the emptying."""
    path = paths.group(group_id)
    if view.get(path) != seen:
        return False
    view.set(path, payloads.encode_group(GroupRecord(is_deleted=True)))
    return True


def _check_deletable(reader: ZnodeReader, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
    if groups.read_group(reader, group_id) is None:
        raise UnknownGroupError("no such consumer group", group_id=group_id)
    for partition in partitions:
        for owner in groups.undecided_owners(reader, group_id, partition):
            raise UnstableOffsetCommitError(
                "the group has offsets in an undecided transaction; wait, or abort it",
                group_id=group_id,
                partition=str(partition),
                owner=owner,
            )


def expire(store: ZnodeStore, now_ms: int, *, retention_ms: int = limits.OFFSETS_RETENTION_MS) -> list[str]:
    """Expire offsets that have not been committed for `retention_ms` or whose topic was deleted, and empty groups.

    A group with offsets in an undecided transaction keeps them all. A sink's group only loses those of deleted topics:
    from the others the sink's query resumes exactly, however long it was stopped.

    Args:
        now_ms: the store's time.

    Returns:
        ids of the groups that lost offsets or were removed.
    """
    found = [paths.name_of(segment) for segment in store.children(paths.GROUPS)]
    return [group_id for group_id in found if _expire(store, group_id, now_ms, retention_ms)]


def _expire(store: ZnodeStore, group_id: str, now_ms: int, retention_ms: int) -> bool:
    with store.snapshot() as reader:
        partitions = groups.partitions_of(reader, group_id)
        if any(groups.undecided_owners(reader, group_id, partition) for partition in partitions):
            return False
        # Read after the group: a topic that it read either is here or was deleted, since a topic's id never comes back.
        topic_ids = {topic.topic_id for topic in topics.states(reader, {p.topic for p in partitions}).values()}
    changed = 0

    def expire_some(some: Sequence[TopicIdPartition]) -> int:
        return store.transact(lambda view: _expire_offsets(view, group_id, some, topic_ids, now_ms, retention_ms))

    for chunk in _chunks(partitions):
        changed += sum(in_parts(chunk, expire_some))
    changed += store.transact(lambda view: _expire_group(view, group_id, now_ms, retention_ms))
    return changed > 0


def _expire_offsets(
    view: ZnodeView,
    group_id: str,
    partitions: Iterable[TopicIdPartition],
    topic_ids: Container[str],
    now_ms: int,
    retention_ms: int,
) -> int:
    """Empty expired offsets, and remove znodes that were emptied long ago; returns how many offsets expired."""
    record = groups.read_group(view, group_id)
    is_owned = record is not None and record.owning_prefix is not None
    expired = 0
    for partition in partitions:
        path = paths.group_partition(group_id, partition)
        znode = view.get(path)
        if znode is None:
            continue
        state, idle_ms = payloads.decode_group_partition(path, znode.data), now_ms - znode.stat.mtime_ms
        if state == _EMPTY:
            if idle_ms > limits.TOMBSTONE_MS:
                _remove(view, group_id, path)
            continue
        # A pending offset is committed when its owner is decided, however old it is; its age starts when it is settled.
        is_old = idle_ms > retention_ms and not is_owned and not state.pending
        is_stale = partition.topic_id not in topic_ids or is_old
        if is_stale and not groups.undecided_owners(view, group_id, partition):
            view.set(path, payloads.encode_group_partition(_EMPTY))
            expired += 1
    return expired


def _expire_group(view: ZnodeView, group_id: str, now_ms: int, retention_ms: int) -> bool:
    """Mark a group without offsets as deleted, or remove one that was marked long ago; returns whether it marked it."""
    path = paths.group(group_id)
    znode = view.get(path)
    if znode is None:
        return False
    record, idle_ms = payloads.decode_group(path, znode.data), now_ms - znode.stat.mtime_ms
    if record.is_deleted:
        if idle_ms > limits.TOMBSTONE_MS and not view.children(path):
            view.delete(path)
        return False
    if record.owning_prefix is not None or idle_ms <= retention_ms:
        return False
    partitions = groups.partitions_of(view, group_id)
    if len(partitions) > PARTITIONS_PER_STEP:
        return False  # later, when the emptied znodes of its partitions are gone
    if any(_state(view, group_id, partition) != _EMPTY for partition in partitions):
        return False
    view.set(path, payloads.encode_group(GroupRecord(is_deleted=True)))
    return True


def _state(reader: ZnodeReader, group_id: str, partition: TopicIdPartition) -> GroupPartitionState:
    path = paths.group_partition(group_id, partition)
    znode = reader.get(path)
    return _EMPTY if znode is None else payloads.decode_group_partition(path, znode.data)


def _remove(view: ZnodeView, group_id: str, path: str) -> None:
    """Delete the znode of a partition, and the folders above it that become empty."""
    while path != paths.group(group_id) and not view.children(path):
        view.delete(path)
        path = parent_of(path)


def _chunks(partitions: Sequence[TopicIdPartition]) -> Iterator[Sequence[TopicIdPartition]]:
    for at in range(0, len(partitions), PARTITIONS_PER_STEP):
        yield partitions[at : at + PARTITIONS_PER_STEP]
