"""Looks up the offsets that users name: an end of a partition, a timestamp, or a number that must be in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from oncelog.arguments import check_number
from oncelog.clients.services import LogServices
from oncelog.errors import OncelogError, UsageError
from oncelog.log import partition_reads, retention, snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import ZnodeStore
from oncelog.types import MAX_LONG, IsolationLevel, TopicIdPartition, TopicPartition

End = Literal["earliest", "latest"]
OffsetSpec = int | End
"""A place in a partition: its log start, its end at the reader's isolation level, or a timestamp in milliseconds."""


_OLD_NAMES = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}
"""Older names of these settings, which some Kafka clients still accept."""


def check_reset(auto_offset_reset: str) -> str:
    """A consumer's setting, in lower case.

    Raises:
        UsageError: it is not one of earliest, latest and none.
    """
    reset = auto_offset_reset.lower()
    if reset not in ("earliest", "latest", "none"):
        near = {"did_you_mean": _OLD_NAMES[reset]} if reset in _OLD_NAMES else {}
        message = "auto_offset_reset must be earliest, latest or none"
        raise UsageError(message, auto_offset_reset=auto_offset_reset, **near)
    return reset


def earliest(store: ZnodeStore, partition: TopicIdPartition) -> int:
    """The log start."""
    return partition_reads.read_partition(store, partition).log_start


def latest(store: ZnodeStore, partition: TopicIdPartition, isolation: IsolationLevel) -> int:
    """The partition's last stable offset, planned alone, or for read_uncommitted its log end."""
    return snapshot.take(store, [partition]).end(partition, isolation)


def for_time(
    services: LogServices, index_files: IndexFiles, partition: TopicIdPartition, timestamp_ms: int, end: int
) -> int | None:
    """The first offset below `end` of a record with this timestamp or a later one; None if there is none."""
    return snapshot.offset_for_time(services.store, services.files, index_files, partition, timestamp_ms, end)


def lag(
    services: LogServices,
    index_files: IndexFiles,
    seen: LogSnapshot,
    partition: TopicIdPartition,
    position: int,
    isolation: IsolationLevel,
) -> int:
    """Offsets between a reader's position and its end in the plan `seen`; 0 if no record is there that it would read.

    The markers that end transactions are often written after their readers have committed. Offsets alone would say
    that a reader who has read everything is behind. Only the index is read, up to the first record.
    """
    end = seen.end(partition, isolation)
    count = max(end - position, 0)
    try:
        ahead = snapshot.visible_range(
            services.store, index_files, partition, position, end, isolation, max_records=1, seen=seen
        ).count
    except OncelogError:  # retention removed what is ahead, or the index is damaged: a reader of it will say so
        return count
    return count if ahead else 0


def find(services: LogServices, tp: TopicPartition, place: OffsetSpec, isolation: IsolationLevel) -> int | None:
    """The offset at `place`; None if no record has this timestamp or a later one."""
    partition = partition_reads.identify(services.store, tp.topic, tp.partition)
    if place == "earliest":
        return earliest(services.store, partition)
    end = latest(services.store, partition, isolation)
    if place == "latest":
        return end
    return for_time(services, services.new_index_files(), partition, check_number("timestamp_ms", place), end)


def within_log(store: ZnodeStore, offsets: Mapping[TopicPartition, int]) -> dict[TopicIdPartition, int]:
    """The same offsets, by partitions with topic ids.

    Raises:
        OffsetOutOfRangeError: an offset is below the log start or above the log end.
    """
    found = {}
    for tp, offset in offsets.items():
        partition = partition_reads.identify(store, tp.topic, tp.partition)
        state = partition_reads.read_partition(store, partition)
        retention.check_within(state, partition, check_number("offset", offset, least=-MAX_LONG))
        found[partition] = offset
    return found
