"""The metadata of a log as an operator looks at it: how large it is, and what is in it. Values only; changes nothing.

Both walk over the znodes and hold a few at a time, however many there are.
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
"""Znodes that are named as the largest ones."""


@dataclass(frozen=True, slots=True)
class MetadataSize:
    """A part of the metadata; bytes are those of the znodes' data."""

    znodes: int = 0
    size_bytes: int = 0

    def grown(self, size_bytes: int) -> MetadataSize:
        """With one znode more."""
        return MetadataSize(self.znodes + 1, self.size_bytes + size_bytes)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of one topic; of a deleted one a single znode is left for a day."""

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
        topics: by name.
        transactions, groups, queries: all of them together; queries are the ledgers of sinks.
        other: what belongs to the log as a whole.
        total: of all these.
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
        path: of it.
        version: how often it was set.
        created_ms, modified_ms: by the store's clock.
        czxid, mzxid: the writes that created it and set it last, by the store's count.
        data: the decoded JSON; bytes where it is none, None where it is empty.
    """

    path: str
    version: int
    created_ms: int
    modified_ms: int
    czxid: int
    mzxid: int
    data: Any


def measure(reader: ZnodeReader, *, largest: int = LARGEST) -> MetadataSizes:
    """Sizes of all metadata."""
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
    """The znode at `path` and all below it, each before its children.

    Raises:
        UsageError: there is no such znode.
    """
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
