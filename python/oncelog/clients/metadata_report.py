"""Reports the size and the content of a log's metadata for operators. Changes nothing.

Both reports walk over the znodes, and hold only a few in memory at a time.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oncelog.errors import InvariantViolation, UsageError
from oncelog.ports import ZnodeReader
from oncelog.znodes import paths
from oncelog.znodes.rules import ROOT, split_path
from oncelog.znodes.walking import walk

LARGEST = 10
"""How many of the largest znodes are listed by default."""


@dataclass(frozen=True, slots=True)
class MetadataSize:
    """The size of a part of the metadata; bytes are those of the znodes' data."""

    znodes: int = 0
    size_bytes: int = 0

    def grown(self, size_bytes: int) -> MetadataSize:
        """This size with one more znode."""
        return MetadataSize(self.znodes + 1, self.size_bytes + size_bytes)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The size of one topic's metadata. A deleted topic keeps a single znode for a day."""

    topic: str
    znodes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ZnodeSize:
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MetadataSizes:
    """How large the metadata of a log is.

    Attributes:
        topics: each topic, by name.
        transactions, groups: all of them together.
        queries: the ledgers of all sinks together.
        other: what belongs to the log as a whole.
        largest: the largest znodes, largest first.
    """

    topics: tuple[TopicMetadata, ...]
    transactions: MetadataSize
    groups: MetadataSize
    queries: MetadataSize
    other: MetadataSize
    total: MetadataSize
    largest: tuple[ZnodeSize, ...]


@dataclass(frozen=True, slots=True)
class DumpedZnode:
    """One znode.

    Attributes:
        version: how often it was set.
        created_ms, modified_ms: by the store's clock.
        czxid, mzxid: zxids of the multi that created it, and of the one that last set it.
        data: the decoded JSON; bytes if it is not JSON, None if it is empty.
    """

    path: str
    version: int
    created_ms: int
    modified_ms: int
    czxid: int
    mzxid: int
    data: Any


def measure(reader: ZnodeReader, *, largest: int = LARGEST) -> MetadataSizes:
    """The sizes of all metadata: see `Admin.measure_metadata`."""
    topics: dict[str, MetadataSize] = {}
    parts = dict.fromkeys((paths.TRANSACTIONS, paths.GROUPS, paths.QUERIES, ROOT), MetadataSize())
    total = MetadataSize()
    top: list[tuple[int, str]] = []
    for path, znode in walk(reader, ROOT):
        size_bytes = len(znode.data)
        total = total.grown(size_bytes)
        topic, folder = paths.topic_of(path), paths.folder_of(path)
        if topic is not None:
            topics[topic] = topics.get(topic, MetadataSize()).grown(size_bytes)
        else:
            part = folder if folder in parts else ROOT
            parts[part] = parts[part].grown(size_bytes)
        heapq.heappush(top, (size_bytes, path))
        if len(top) > largest:
            heapq.heappop(top)
    return MetadataSizes(
        tuple(TopicMetadata(name, size.znodes, size.size_bytes) for name, size in sorted(topics.items())),
        parts[paths.TRANSACTIONS],
        parts[paths.GROUPS],
        parts[paths.QUERIES],
        parts[ROOT],
        total,
        tuple(ZnodeSize(path, size_bytes) for size_bytes, path in sorted(top, key=lambda one: (-one[0], one[1]))),
    )


def dump(reader: ZnodeReader, path: str = ROOT) -> Iterator[DumpedZnode]:
    """The znode at `path` and all below it: see `Admin.dump_metadata`."""
    try:
        split_path(path)
    except InvariantViolation as error:
        raise UsageError("not the path of a znode; write it like /topics/flights", path=path) from error
    if reader.get(path) is None:
        raise UsageError("there is no such znode", path=path)
    return (
        DumpedZnode(below, stat.version, stat.ctime_ms, stat.mtime_ms, stat.czxid, stat.mzxid, _decoded(data))
        for below, (data, stat) in walk(reader, path)
    )


def _decoded(data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data
