"""Creates, configures and deletes topics.

The znode of a deleted topic stays as a tombstone, and a new topic of the same name sets it again. So its version keeps
growing, and a step that read the old topic can never pass its check on the new one (znodes/transact.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

from oncelog import limits
from oncelog.arguments import check_number
from oncelog.errors import TopicExistsError, UsageError
from oncelog.log import partition_reads
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.partition import PartitionState, TopicState
from oncelog.randomness import random_id
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_below, paths_upwards

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Kafka's rule for topic names."""

ZNODES_PER_STEP = 400


def create(store: ZnodeStore, name: str, topic: TopicState) -> TopicState:
    """Create a topic with empty partitions.

    Args:
        name: letters, digits, dots, underscores and dashes; at most 249 characters.
        topic: from `new_state`.

    Raises:
        TopicExistsError: the topic exists.
        UsageError: the name is not allowed, or a number is out of bounds.
    """
    check(name, topic)
    remove_deleted(store, name)
    resolving(lambda: store.transact(lambda view: _create(view, name, topic)))
    return topic


def check(name: str, topic: TopicState) -> None:
    """Raise a UsageError if the name is not allowed, or if a number is out of bounds."""
    _check_name(name)
    _check_state(topic)


def new_state(partitions: int, *, retention_ms: int | None = None, retention_bytes: int | None = None) -> TopicState:
    """The state of a new topic, with a new id."""
    return TopicState(random_id(), partitions, retention_ms, retention_bytes)


def _create(view: ZnodeView, name: str, topic: TopicState) -> None:
    path = paths.topic(name)
    znode = view.get(path)
    stored = payloads.decode_topic(path, znode.data) if znode else None
    if stored is not None and stored.topic_id == topic.topic_id:
        return  # an earlier try of this step succeeded
    if stored is not None and not stored.is_deleted:
        raise TopicExistsError("a topic of this name exists", topic=name)
    write = view.create if stored is None else view.set
    write(path, payloads.encode_topic(topic))
    for number in range(topic.partitions):
        partition = TopicIdPartition(name, topic.topic_id, number)
        view.create(paths.partition(partition), payloads.encode_partition(PartitionState()))


class Keep(Enum):
    """A setting that is left unchanged; None already means that data is kept forever."""

    KEEP = auto()


Retention = int | None | Keep


def configure(
    store: ZnodeStore, name: str, *, retention_ms: Retention = Keep.KEEP, retention_bytes: Retention = Keep.KEEP
) -> TopicState:
    """Change the topic's retention. None keeps data forever; settings that are left out do not change."""

    def step(view: ZnodeView) -> TopicState:
        before = partition_reads.read_topic(view, name)
        topic = replace(
            before,
            retention_ms=before.retention_ms if isinstance(retention_ms, Keep) else retention_ms,
            retention_bytes=before.retention_bytes if isinstance(retention_bytes, Keep) else retention_bytes,
        )
        _check_state(topic)
        view.set(paths.topic(name), payloads.encode_topic(topic))
        return topic

    return store.transact(step)


def delete(store: ZnodeStore, name: str) -> None:
    """Delete a topic. Appends and reads fail at once; the next collections remove its files.

    Raises:
        UnknownTopicError: the topic does not exist.
    """

    def mark(view: ZnodeView) -> None:
        topic = partition_reads.read_topic(view, name)
        view.set(paths.topic(name), payloads.encode_topic(replace(topic, is_deleted=True)))
        for number in range(topic.partitions):
            path = paths.partition(TopicIdPartition(name, topic.topic_id, number))
            if view.get(path) is not None:
                view.set(path, payloads.encode_partition(PartitionState(is_deleted=True)))

    store.transact(mark)
    remove_deleted(store, name)


def remove_deleted(store: ZnodeStore, name: str) -> None:
    """Finish a deletion: remove everything below the topic's znode, in steps of bounded size."""
    path = paths.topic(name)
    znode = store.get(path)
    if znode is None or not payloads.decode_topic(path, znode.data).is_deleted:
        return
    doomed = list(paths_upwards(store, path))
    for at in range(0, len(doomed), ZNODES_PER_STEP):
        some = doomed[at : at + ZNODES_PER_STEP]
        store.transact(lambda view, some=some: _delete_dead(view, path, some))  # type: ignore[misc]


def _delete_dead(view: ZnodeView, topic_path: str, doomed: list[str]) -> None:
    """Delete the remaining `doomed` znodes, but not those of a new topic that got the same name meanwhile."""
    znode = view.get(topic_path)
    topic = payloads.decode_topic(topic_path, znode.data) if znode else None
    live = f"{topic_path}/{topic.topic_id}/" if topic is not None and not topic.is_deleted else None
    for path in doomed:
        if view.get(path) is not None and (live is None or not f"{path}/".startswith(live)):
            view.delete(path)


def remove_tombstones(store: ZnodeStore, now_ms: int) -> None:
    """Remove the znodes of topics that were deleted more than `limits.TOMBSTONE_MS` before now, by the store's time."""
    for topic in paths_below(store, paths.TOPICS):
        remove_deleted(store, paths.name_at(topic))
        store.transact(lambda view, path=topic: _remove_tombstone(view, path, now_ms))  # type: ignore[misc]


def _remove_tombstone(view: ZnodeView, path: str, now_ms: int) -> None:
    znode = view.get(path)
    if znode is None or not payloads.decode_topic(path, znode.data).is_deleted:
        return
    if now_ms - znode.stat.mtime_ms > limits.TOMBSTONE_MS and not view.children(path):
        view.delete(path)


def states(reader: ZnodeReader, names: Iterable[str] | None = None) -> dict[str, TopicState]:
    """The existing topics (all, or those of `names`), ordered by name.

    Each topic is read once, so it cannot disappear in between, and all together: on ZooKeeper, in one round trip.
    """
    if names is None:
        names = map(paths.name_of, reader.children(paths.TOPICS))
    wanted = sorted(names)
    found = {}
    for name, znode in zip(wanted, reader.get_many(map(paths.topic, wanted)), strict=True):
        topic = payloads.decode_topic(paths.topic(name), znode.data) if znode else None
        if topic is not None and not topic.is_deleted:
            found[name] = topic
    return found


def all_partitions(reader: ZnodeReader) -> list[TopicIdPartition]:
    """The partitions of all topics."""
    return [partition for name, topic in states(reader).items() for partition in _partitions(name, topic)]


def partitions_of(reader: ZnodeReader, name: str) -> list[TopicIdPartition]:
    """The partitions of a topic. Raises an UnknownTopicError if it does not exist."""
    return _partitions(name, partition_reads.read_topic(reader, name))


def _partitions(name: str, topic: TopicState) -> list[TopicIdPartition]:
    return [TopicIdPartition(name, topic.topic_id, number) for number in range(topic.partitions)]


def _check_name(name: str) -> None:
    if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise UsageError(
            "a topic's name has 1 to 249 letters, digits, dots, underscores or dashes, and is not '.' or '..'",
            topic=name,
        )


def _check_state(topic: TopicState) -> None:
    check_number("partitions", topic.partitions, least=1, most=limits.MAX_PARTITIONS)
    for name, value in (("retention_ms", topic.retention_ms), ("retention_bytes", topic.retention_bytes)):
        if value is not None:  # None keeps data forever
            check_number(name, value)
