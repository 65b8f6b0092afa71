"""Consumer group offsets as znodes: plain commits, offsets that a transaction stages, and fetches.

Every commit sets the group's znode, and the version of this znode orders the group's commits. group_removal.py deletes
and expires groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from oncelog import limits
from oncelog.arguments import check_number
from oncelog.errors import (
    CorruptDataError,
    GroupOwnedError,
    OutcomeUnknownError,
    TransactConflictError,
    UnstableOffsetCommitError,
    UsageError,
)
from oncelog.log import partition_reads
from oncelog.ports import Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol import group_offsets
from oncelog.protocol.group_offsets import GroupPartitionState
from oncelog.protocol.partition import OwnerState
from oncelog.randomness import random_id
from oncelog.types import OffsetAndMetadata, Outcome, TopicIdPartition, TopicPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import GroupRecord
from oncelog.znodes.transact import in_parts, resolving_told
from oncelog.znodes.walking import paths_below

T = TypeVar("T")

GroupOffsets = Mapping[TopicIdPartition, OffsetAndMetadata]

PARTITIONS_PER_STEP = 200
"""Bounds a step of commits to about 500 operations."""


READ_ATTEMPTS = 5
"""How often offsets are read if their owners are deleted meanwhile, on stores without atomic snapshots."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group.

    Attributes:
        owning_prefix: the transactional-id prefix of the sink that owns its offsets, if one does.
        offsets: the committed offsets. Offsets of undecided transactions do not count.
        undecided: by partition, the open owners that hold offsets of it.
    """

    group_id: str
    owning_prefix: str | None
    offsets: Mapping[TopicIdPartition, OffsetAndMetadata]
    undecided: Mapping[TopicIdPartition, tuple[str, ...]]


def as_value(partition: TopicPartition, value: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """The offset and metadata that a user commits for `partition`.

    Raises:
        UsageError: the offset is out of bounds, or its metadata is too long.
    """
    value = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
    check_number("offset", value.offset, partition=str(partition))
    size_bytes = len(value.metadata.encode(errors="surrogatepass"))
    if size_bytes > limits.MAX_OFFSET_METADATA_BYTES:
        raise UsageError(
            "the metadata of a committed offset is too long",
            partition=str(partition),
            size_bytes=size_bytes,
            maximum_bytes=limits.MAX_OFFSET_METADATA_BYTES,
        )
    return value


def step_by_step(offsets: GroupOffsets, run: Callable[[GroupOffsets], T]) -> Iterator[T]:
    """Run steps of bounded size, one after the other, each for some of the offsets."""
    rows = sorted(offsets.items(), key=lambda row: row[0])
    for at in range(0, len(rows), PARTITIONS_PER_STEP):
        yield from in_parts(rows[at : at + PARTITIONS_PER_STEP], lambda some: run(dict(some)))


def next_order(view: ZnodeView, group_id: str, *, owning_prefix: str | None = None, nonce: str | None = None) -> int:
    """Set the group's znode; returns its new version, which orders this step's commit.

    Args:
        owning_prefix: the prefix of the sink that commits; None for plain commits and producers' transactions.
        nonce: of a plain commit, or of the sink's round.

    Raises:
        GroupOwnedError: another sink owns the group's offsets.
    """
    path = paths.group(group_id)
    znode = view.get(path)
    if znode is None:
        view.create(path, payloads.encode_group(GroupRecord(owning_prefix, nonce=nonce)))
        return 0
    stored = payloads.decode_group(path, znode.data).owning_prefix
    if stored is not None and stored != owning_prefix:
        raise GroupOwnedError(
            "a sink owns the offsets of this group, and commits them with its batches; use another groupId",
            group_id=group_id,
            owning_prefix=stored,
            prefix=owning_prefix,
        )
    view.set(path, payloads.encode_group(GroupRecord(owning_prefix, nonce=nonce)))
    return znode.stat.version + 1


def commit(store: ZnodeStore, group_id: str, offsets: GroupOffsets) -> GroupOffsets:
    """Commit offsets outside of a transaction.

    Returns:
        the offsets that these replaced, where that is known.

    Raises:
        GroupOwnedError: a sink owns the group's offsets.
        OutcomeUnknownError: an answer was lost, and others committed since. A repetition could undo their commit.
    """
    parts = step_by_step(offsets, lambda some: _commit(store, group_id, some))
    return {partition: value for part in parts for partition, value in part.items()}


def _commit(store: ZnodeStore, group_id: str, offsets: GroupOffsets) -> GroupOffsets:
    """Commit in one step. A repetition succeeds if it finds its nonce, and fails if others changed the group (I5)."""
    nonce = random_id()
    base_version = _version(store, group_id)

    def step(view: ZnodeView, is_repeated: bool) -> GroupOffsets:
        record = read_group(view, group_id)
        if record is not None and record.nonce == nonce:
            return {}
        if is_repeated and _version(view, group_id) != base_version:
            raise OutcomeUnknownError("the commit was not answered, and others committed since", group_id=group_id)
        return _commit_in(view, group_id, offsets, nonce)

    return resolving_told(lambda is_repeated: store.transact(lambda view: step(view, is_repeated)))


def _version(reader: ZnodeReader, group_id: str) -> int | None:
    znode = reader.get(paths.group(group_id))
    return None if znode is None else znode.stat.version


def _commit_in(view: ZnodeView, group_id: str, offsets: GroupOffsets, nonce: str) -> GroupOffsets:
    order = next_order(view, group_id, nonce=nonce)
    replaced = {}
    for partition, value in offsets.items():
        path, state, exists = _read(view, group_id, partition)
        _write(view, path, state.committed(value, order), exists=exists)
        if state.current is not None:
            replaced[partition] = state.current.value
    return replaced


def stage(view: ZnodeView, group_id: str, offsets: GroupOffsets, owner: str, order: int) -> list[str]:
    """Stage offsets that become current when `owner` commits; returns the paths of the znodes that list it.

    Raises:
        UnstableOffsetCommitError: too many undecided transactions hold offsets of a partition.
    """
    listed = []
    for partition, value in offsets.items():
        path, state, exists = _read(view, group_id, partition)
        if len(state.pending) >= limits.PENDING_OFFSETS_KEPT:
            state = _folded(view, state)
        staged = state.staged(owner, value, order)
        _check_has_room(group_id, partition, staged)
        _write(view, path, staged, exists=exists)
        listed.append(path)
    return listed


def _folded(view: ZnodeView, state: GroupPartitionState) -> GroupPartitionState:
    """The state with the pending offsets of decided owners folded in early; they may be settled only much later.

    A fetch gives the same result, and the settler finds nothing left to fold in.
    """
    for pending in state.pending:
        owner = partition_reads.read_owner(view, pending.owner)
        if owner is not None and owner.outcome is not Outcome.OPEN:
            state = state.settled(pending.owner, owner.outcome)
    return state


def _check_has_room(group_id: str, partition: TopicIdPartition, state: GroupPartitionState) -> None:
    size_bytes = len(payloads.encode_group_partition(state))
    if len(state.pending) > 1 and size_bytes > limits.MAX_GROUP_PARTITION_BYTES:
        raise UnstableOffsetCommitError(
            "too many undecided transactions hold offsets of this partition of the group; wait, or abort the named one "
            "with `oncelog txn abort`",
            group_id=group_id,
            partition=str(partition),
            owner=state.pending[0].owner,
            undecided=len(state.pending) - 1,
        )


def settle(view: ZnodeView, path: str, owner: str, state: OwnerState) -> None:
    """Fold in or drop the offset that a decided `owner` staged at `path`, if that has not happened yet."""
    znode = view.get(path)
    if znode is None:
        return
    before = payloads.decode_group_partition(path, znode.data)
    after = before.settled(owner, state.outcome)
    if after != before:
        view.set(path, payloads.encode_group_partition(after))


def fetch(
    reader: ZnodeReader, group_id: str, partitions: Iterable[TopicIdPartition], *, require_stable: bool = True
) -> dict[TopicIdPartition, OffsetAndMetadata]:
    """The group's committed offsets at one moment, without partitions that have none.

    Raises:
        UnstableOffsetCommitError: with `require_stable`, if an undecided transaction holds offsets of these partitions.
        TransactConflictError: the offsets changed during every read; try again.
    """
    wanted = list(partitions)
    read = _read_together(reader, [group_id], lambda _: wanted)[group_id]
    found = {}
    for partition, state in read.states.items():
        value = group_offsets.resolve(state, read.owners, require_stable=require_stable)
        if value is not None:
            found[partition] = value
    return found


@dataclass(frozen=True, slots=True)
class _Offsets:
    """A group's own znode, offsets of it, and the owners that they list and others, as they were at one moment."""

    znode: Znode | None
    states: Mapping[TopicIdPartition, GroupPartitionState]
    owners: Mapping[str, OwnerState]


def _read_together(
    reader: ZnodeReader, group_ids: Iterable[str], partitions: Callable[[str], list[TopicIdPartition]]
) -> dict[str, _Offsets]:
    """Read the offsets, then the owners that they list, so that an owner's offsets count in all partitions or in none.

    Assumptions: every commit and every staging sets the group's znode; settling only folds in decided offsets. Hence,
    while the group's znode is unchanged, every owner is listed wherever it staged offsets, or it was decided before. So
    its outcome, read once afterwards, applies to all partitions.

    Args:
        partitions: of a group, read behind its znode. All groups are read together, and those again that changed.
    """
    found: dict[str, _Offsets] = {}
    gone: set[str] = set()
    left = list(group_ids)
    for _ in range(READ_ATTEMPTS):
        own = list(map(paths.group, left))
        before = dict(zip(left, reader.get_many(own), strict=True))
        where = [(group_id, partition) for group_id in left for partition in partitions(group_id)]
        spots = [paths.group_partition(*spot) for spot in where]
        states: dict[str, dict[TopicIdPartition, GroupPartitionState]] = {group_id: {} for group_id in left}
        for (group_id, partition), path, znode in zip(where, spots, reader.get_many(spots), strict=True):
            states[group_id][partition] = _decoded(path, znode)
        after = dict(zip(left, reader.get_many(own), strict=True))
        unchanged = {group_id: _listed(states[group_id]) for group_id in left if after[group_id] == before[group_id]}
        owners = partition_reads.read_existing_owners(reader, set().union(*unchanged.values()))
        gone = set()
        for group_id, listed in unchanged.items():
            if listed <= owners.keys():
                found[group_id] = _Offsets(before[group_id], states[group_id], owners)
            else:  # folded in meanwhile: read again
                gone |= listed - owners.keys()
        left = [group_id for group_id in left if group_id not in found]
        if not left:
            return found
    if gone:
        raise CorruptDataError("groups list owners that do not exist", groups=left, owners=sorted(gone))
    raise TransactConflictError("the offsets of groups changed during every read; try again", groups=left)


def _listed(states: Mapping[TopicIdPartition, GroupPartitionState]) -> set[str]:
    return {pending.owner for state in states.values() for pending in state.pending}


def list_groups(store: ZnodeStore) -> list[str]:
    """Ids of all groups."""
    return list(last_set(store))


def last_set(store: ZnodeStore) -> dict[str, int]:
    """All groups, by id, with the zxid of the last commit or staging: each sets the group's znode."""
    found = paths_below(store, paths.GROUPS)
    zxids = {
        paths.name_at(path): znode.stat.mzxid
        for path, znode in zip(found, store.get_many(found), strict=True)
        if znode is not None and not payloads.decode_group(path, znode.data).is_deleted
    }
    return dict(sorted(zxids.items()))


def describe(store: ZnodeStore, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Describe groups, by id, without those that do not exist."""
    with store.snapshot() as reader:
        read = _read_together(reader, group_ids, lambda group_id: partitions_of(reader, group_id))
    return {
        group_id: _described(group_id, record.owning_prefix, offsets)
        for group_id, offsets in read.items()
        if (record := _existing(paths.group(group_id), offsets.znode)) is not None
    }


def _described(group_id: str, owning_prefix: str | None, read: _Offsets) -> GroupDescription:
    offsets, undecided = {}, {}
    for partition, state in read.states.items():
        value = group_offsets.resolve(state, read.owners, require_stable=False)
        if value is not None:
            offsets[partition] = value
        listed = (pending.owner for pending in state.pending)
        if held := tuple(owner for owner in listed if read.owners[owner].outcome is Outcome.OPEN):
            undecided[partition] = held
    return GroupDescription(group_id, owning_prefix, offsets, undecided)


def read_group(reader: ZnodeReader, group_id: str) -> GroupRecord | None:
    """The group's own record; None if the group does not exist or was deleted."""
    path = paths.group(group_id)
    return _existing(path, reader.get(path))


def _existing(path: str, znode: Znode | None) -> GroupRecord | None:
    record = payloads.decode_group(path, znode.data) if znode else None
    return None if record is None or record.is_deleted else record


def undecided_owners(reader: ZnodeReader, group_id: str, partition: TopicIdPartition) -> tuple[str, ...]:
    """The open owners that hold an offset of the partition."""
    _, state, _ = _read(reader, group_id, partition)
    owners = [(pending.owner, partition_reads.read_owner(reader, pending.owner)) for pending in state.pending]
    return tuple(name for name, owner in owners if owner is not None and owner.outcome is Outcome.OPEN)


def partitions_of(reader: ZnodeReader, group_id: str) -> list[TopicIdPartition]:
    """The partitions that the group has, or had, offsets for."""
    found = [
        paths.group_partition_of(path)[1]
        for topic in paths_below(reader, paths.group(group_id))
        for topic_id in paths_below(reader, topic)
        for path in paths_below(reader, topic_id)
    ]
    return sorted(found, key=lambda partition: (paths.topic(partition.topic), partition.topic_id, partition.partition))


def _read(reader: ZnodeReader, group_id: str, partition: TopicIdPartition) -> tuple[str, GroupPartitionState, bool]:
    path = paths.group_partition(group_id, partition)
    znode = reader.get(path)
    return path, _decoded(path, znode), znode is not None


def _decoded(path: str, znode: Znode | None) -> GroupPartitionState:
    return GroupPartitionState() if znode is None else payloads.decode_group_partition(path, znode.data)


def _write(view: ZnodeView, path: str, state: GroupPartitionState, *, exists: bool) -> None:
    data = payloads.encode_group_partition(state)
    if exists:
        view.set(path, data)
    else:
        view.create(path, data)
