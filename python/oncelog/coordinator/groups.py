"""Consumer group offsets as znodes: plain commits, offsets staged in a transaction, fetches, expiry.

The version of the group's own znode orders the group's commits: every commit sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncelog.errors import GroupOwnedError
from oncelog.log import partition_log
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol import group_offsets
from oncelog.protocol.group_offsets import GroupPartitionState
from oncelog.protocol.partition import OwnerState
from oncelog.types import OffsetAndMetadata, TopicIdPartition
from oncelog.znodes import paths, payloads

GroupOffsets = Mapping[TopicIdPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group: its offsets, and the transactional-id prefix of the sink that owns it, if one does."""

    group_id: str
    owning_prefix: str | None
    offsets: Mapping[TopicIdPartition, OffsetAndMetadata]


def next_order(view: ZnodeView, group_id: str, *, owning_prefix: str | None = None) -> int:
    """Bump the group's znode and return its new version, which orders the commit of this step.

    Args:
        owning_prefix: the sink's prefix that writes; None for plain commits and producers' transactions.

    Raises:
        GroupOwnedError: a sink owns the group's offsets, and it is not the one that commits.
    """
    path = paths.group(group_id)
    znode = view.get(path)
    if znode is None:
        view.create(path, payloads.encode_group(owning_prefix))
        return 0
    stored = payloads.decode_group(path, znode.data)
    if stored is not None and stored != owning_prefix:
        raise GroupOwnedError(
            "the offsets of this group belong to a sink, which commits them with its batches; use another groupId",
            group_id=group_id,
            owning_prefix=stored,
            prefix=owning_prefix,
        )
    view.set(path, payloads.encode_group(owning_prefix))
    return znode.stat.version + 1


def commit(view: ZnodeView, group_id: str, offsets: GroupOffsets) -> None:
    """Commit offsets outside any transaction, in the caller's step."""
    order = next_order(view, group_id)
    for partition, value in offsets.items():
        path, state, exists = _read(view, group_id, partition)
        _write(view, path, state.committed(value, order), exists=exists)


def stage(view: ZnodeView, group_id: str, offsets: GroupOffsets, owner: str, order: int) -> list[str]:
    """Stage offsets that become current when `owner` commits; returns the znode paths that now list it."""
    listed = []
    for partition, value in offsets.items():
        path, state, exists = _read(view, group_id, partition)
        _write(view, path, state.staged(owner, value, order), exists=exists)
        listed.append(path)
    return listed


def settle(view: ZnodeView, path: str, owner: str, state: OwnerState) -> None:
    """Fold in or drop what a decided `owner` staged at `path`; no-op when that happened already."""
    znode = view.get(path)
    if znode is None:
        return
    before = payloads.decode_group_partition(path, znode.data)
    after = before.settled(owner, state.outcome)
    if after != before:
        view.set(path, payloads.encode_group_partition(after))


def lists_owner(reader: ZnodeReader, path: str, owner: str) -> bool:
    """Whether the group's partition at `path` has a pending offset of `owner`."""
    znode = reader.get(path)
    if znode is None:
        return False
    return any(pending.owner == owner for pending in payloads.decode_group_partition(path, znode.data).pending)


def fetch(
    reader: ZnodeReader, group_id: str, partitions: Iterable[TopicIdPartition], *, require_stable: bool = True
) -> dict[TopicIdPartition, OffsetAndMetadata]:
    """The group's committed offsets; partitions without one are left out.

    Raises:
        UnstableOffsetCommitError: with `require_stable`, while a transaction that holds offsets is undecided.
    """
    found = {}
    for partition in partitions:
        _, state, _ = _read(reader, group_id, partition)
        owners = {}
        for pending in state.pending:
            owner = partition_log.read_owner(reader, pending.owner)
            if owner is not None:
                owners[pending.owner] = owner
        value = group_offsets.resolve(state, owners, require_stable=require_stable)
        if value is not None:
            found[partition] = value
    return found


def list_groups(store: ZnodeStore) -> list[str]:
    """Ids of all groups."""
    return [paths.name_of(name) for name in store.children(paths.GROUPS)]


def describe(store: ZnodeStore, group_id: str) -> GroupDescription | None:
    """The group's offsets (the old value where a transaction is undecided), or None if there is no such group."""
    with store.snapshot() as reader:
        znode = reader.get(paths.group(group_id))
        if znode is None:
            return None
        prefix = payloads.decode_group(paths.group(group_id), znode.data)
        offsets = fetch(reader, group_id, _partitions(reader, group_id), require_stable=False)
        return GroupDescription(group_id, prefix, offsets)


def _partitions(reader: ZnodeReader, group_id: str) -> list[TopicIdPartition]:
    root = paths.group(group_id)
    return [
        TopicIdPartition(paths.name_of(topic), topic_id, int(number))
        for topic in reader.children(root)
        for topic_id in reader.children(f"{root}/{topic}")
        for number in sorted(reader.children(f"{root}/{topic}/{topic_id}"), key=int)
    ]


def _read(reader: ZnodeReader, group_id: str, partition: TopicIdPartition) -> tuple[str, GroupPartitionState, bool]:
    path = paths.group_partition(group_id, partition)
    znode = reader.get(path)
    if znode is None:
        return path, GroupPartitionState(), False
    return path, payloads.decode_group_partition(path, znode.data), True


def _write(view: ZnodeView, path: str, state: GroupPartitionState, *, exists: bool) -> None:
    data = payloads.encode_group_partition(state)
    if exists:
        view.set(path, data)
    else:
        view.create(path, data)
