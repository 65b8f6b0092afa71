"""Reads the znodes of topics and partitions: a partition's state, the index at that state, and the owners it lists.

It never writes; log/partition_log.py does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from oncelog import limits
from oncelog.arguments import check_name, check_number
from oncelog.errors import CorruptDataError, DataLossError, UnknownPartitionError, UnknownTopicError
from oncelog.log.index import PartitionIndex
from oncelog.ports import Znode, ZnodeReader, ZnodeStore
from oncelog.protocol.partition import OwnerState, PartitionState, TailNode, TopicState
from oncelog.types import MAX_LONG, TopicIdPartition
from oncelog.znodes import paths, payloads

T = TypeVar("T")


def read_topic(reader: ZnodeReader, name: str) -> TopicState:
    """The topic's state.

    Raises:
        UnknownTopicError: the topic does not exist.
        UsageError: the name is not valid.
    """
    path = paths.topic(check_name("topic's name", name))
    znode = reader.get(path)
    topic = payloads.decode_topic(path, znode.data) if znode else None
    if topic is None or topic.is_deleted:
        raise UnknownTopicError("no such topic; create it with `oncelog topic create` or create_topic()", topic=name)
    return topic


def identify(reader: ZnodeReader, name: str, partition: int) -> TopicIdPartition:
    """The partition with the topic's current id.

    Raises:
        UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
    """
    topic = read_topic(reader, name)
    if check_number("partition", partition, least=-MAX_LONG) not in range(topic.partitions):
        raise UnknownPartitionError(
            "the topic has no such partition", topic=name, partition=partition, partitions=topic.partitions
        )
    return TopicIdPartition(name, topic.topic_id, partition)


def read_partition(reader: ZnodeReader, partition: TopicIdPartition) -> PartitionState:
    """The partition's state.

    Raises:
        UnknownTopicError: the topic was deleted after `partition` was identified, and may have been created again.
    """
    return read_partitions(reader, [partition])[partition]


def read_existing(
    reader: ZnodeReader, partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, PartitionState]:
    """The states of those `partitions` that exist and are not being deleted, read together."""
    wanted = list(partitions)
    return existing(wanted, reader.get_many(map(paths.partition, wanted)))


def existing(
    partitions: Iterable[TopicIdPartition], znodes: Iterable[Znode | None]
) -> dict[TopicIdPartition, PartitionState]:
    """The states of those `partitions` that exist and are not being deleted, from their `znodes`."""
    found = {}
    for partition, znode in zip(partitions, znodes, strict=True):
        state = payloads.decode_partition(paths.partition(partition), znode.data) if znode else None
        if state is not None and not state.is_deleted:
            found[partition] = state
    return found


def read_partitions(
    reader: ZnodeReader, partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, PartitionState]:
    """The states of `partitions`, read together.

    Raises:
        UnknownTopicError: see `read_partition`.
    """
    wanted = list(partitions)
    found = read_existing(reader, wanted)
    check_all(found, wanted)
    return found


def check_all(found: Container[TopicIdPartition], wanted: Iterable[TopicIdPartition]) -> None:
    """Raise UnknownTopicError if one of the `wanted` partitions is not among the `found` ones."""
    for partition in wanted:
        if partition not in found:
            raise _no_partition(partition)


def exists(reader: ZnodeReader, partition: TopicIdPartition) -> bool:
    """Whether the partition exists and is not being deleted."""
    return bool(read_existing(reader, [partition]))


def _no_partition(partition: TopicIdPartition) -> UnknownTopicError:
    return UnknownTopicError(
        "the topic was deleted (or deleted and created again)", topic=partition.topic, topic_id=partition.topic_id
    )


def read_index(
    reader: ZnodeReader,
    partition: TopicIdPartition,
    state: PartitionState,
    *,
    start: int = 0,
    news: TailNode | None = None,
) -> PartitionIndex:
    """The index of the partition from `start` on, at `state` or later.

    A reader near the end of the log only reads the tail nodes that it needs, and not the whole tail.

    Args:
        news: the tail node that begins at `start`, if it was read already, with `state` or later. If nothing comes
            after it, nothing more is read.

    Raises:
        CorruptDataError: the tail does not reach from the end of the roots to the log end. It was rolled after `state`
            was read, or a znode is missing. In both cases markers are missing, and aborted data would be shown.
    """
    folder = paths.tail(partition)
    rolled_end = max(state.roots[-1].end if state.roots else 0, state.log_start)
    if news is not None and rolled_end <= start == news.base_offset and state.log_end <= news.end_offset:
        return PartitionIndex(state.roots, (news,))
    names, nodes = _read_tail(reader, folder, start if start > rolled_end else None)
    tail_start = min(int(names[0]), state.log_end) if names else state.log_end
    if tail_start > rolled_end:
        raise CorruptDataError(
            "the index has a hole before its tail", path=folder, missing_offset=rolled_end, tail_start=tail_start
        )
    _check_whole(nodes, state.log_end, folder)
    return PartitionIndex(state.roots, nodes)


def _check_whole(nodes: Sequence[TailNode], log_end: int, folder: str) -> None:
    """Raise if any tail node is missing, even after the range to read: markers there say what was aborted."""
    position = nodes[0].base_offset if nodes else log_end
    for node in nodes:
        if node.base_offset != position:
            break
        position = node.end_offset
    else:
        if position >= log_end:
            return
    raise CorruptDataError("the index has a hole in its tail", path=folder, missing_offset=position)


def consistently(store: ZnodeStore, read: Callable[[ZnodeReader], T]) -> T:
    """Read several znodes; read them again if they contradict each other.

    On a store without atomic snapshots, a reader may see a partition before a roll, and its tail after it.

    Raises:
        CorruptDataError, DataLossError: `read` raised it on every attempt.
    """
    for _ in range(limits.PLAN_ATTEMPTS - 1):
        with suppress(CorruptDataError, DataLossError), store.snapshot() as reader:
            return read(reader)
        store.sync()
    with store.snapshot() as reader:
        return read(reader)


def read_with_index(store: ZnodeStore, partition: TopicIdPartition) -> tuple[PartitionState, PartitionIndex]:
    """A partition's state, and its whole index at that state.

    Raises:
        UnknownTopicError, CorruptDataError: see `read_partition` and `read_index`.
    """

    def read(reader: ZnodeReader) -> tuple[PartitionState, PartitionIndex]:
        state = read_partition(reader, partition)
        return state, read_index(reader, partition, state)

    return consistently(store, read)


def walk_index(
    store: ZnodeStore, partition: TopicIdPartition, walk: Callable[[PartitionState, PartitionIndex], T]
) -> tuple[PartitionState, T]:
    """Walk over the whole index of a partition. If an index file was removed meanwhile, walk over the newer index.

    A process may be suspended during the walk. Files that retention or a roll no longer needs are removed in the end.

    Returns:
        the partition's state at that index, and what `walk` returned.

    Raises:
        UnknownTopicError, CorruptDataError: see `read_with_index`.
        DataLossError: an index file is missing, although an index that was read afterwards still names it.
    """
    missed: set[object] = set()
    while True:
        state, index = read_with_index(store, partition)
        try:
            return state, walk(state, index)
        except DataLossError as error:
            file = error.fields.get("file")
            if file in missed:
                raise
            missed.add(file)
            store.sync()


def _read_tail(reader: ZnodeReader, folder: str, start: int | None) -> tuple[list[str], tuple[TailNode, ...]]:
    """The names of all tail nodes, and the nodes from the one with `start` on."""
    if start is None:
        found = reader.children_data(folder)
        names = [name for name, _ in found]
    else:
        names = reader.children(folder)
        wanted = names[max(bisect_right(names, paths.tail_name(start)) - 1, 0) :]
        znodes = reader.get_many(f"{folder}/{name}" for name in wanted)
        found = [(name, znode) for name, znode in zip(wanted, znodes, strict=True) if znode is not None]
        if len(found) < len(wanted):
            raise CorruptDataError("the tail of the index was rolled while it was read", path=folder)
    return names, tuple(payloads.decode_tail_node(f"{folder}/{name}", znode.data) for name, znode in found)


def read_owner(reader: ZnodeReader, owner: str) -> OwnerState | None:
    """The owner's state; None if it was settled everywhere and deleted."""
    znode = reader.get(owner)
    return None if znode is None else payloads.owner_state(owner, znode)


def read_existing_owners(reader: ZnodeReader, names: Iterable[str]) -> dict[str, OwnerState]:
    """The states of owners, without those that were settled everywhere and deleted."""
    wanted = sorted(names)
    return {
        name: payloads.owner_state(name, znode)
        for name, znode in zip(wanted, reader.get_many(wanted), strict=True)
        if znode is not None
    }
