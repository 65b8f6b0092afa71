"""Where the rows of decided batches are: first and last offset in each partition, for readers of whole batches.

    /kafka_extents/<prefix>/<n>     of round n, or of several rounds that ended with n

A decision writes the extents of its round in the same multi. So they are there before a row of it can be visible, and
those of a round that is not decided never are. They outlive the round's record: a batch that is over may be cut by the
ends of a reader that is behind, that has a limit, or that another batch holds back.

To keep them few, old ones are merged. A reader takes merged batches for one batch, and sees them at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from oncelog.errors import CorruptDataError, UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import TopicIdPartition
from oncelog.znodes import fields, paths
from oncelog.znodes.transact import resolving

ROOT = "/kafka_extents"

MAX_PARTITIONS = 12_000
"""A batch's extents are one znode of at most 512 kB, at up to 40 bytes a partition."""

KEPT = 4_000
"""How many extents of a prefix are kept before old ones are merged; those of the newest batch always are."""

MERGED_EVERY = 32
"""After so many rounds of a prefix, old extents are merged."""


class Extent(NamedTuple):
    """Offsets of the first and the last row in a partition; rows of others may lie between them."""

    first: int
    last: int


Extents = Mapping[TopicIdPartition, Extent]

NOWHERE: Final[Extents] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Batch:
    """A decided batch, or several that were merged.

    Attributes:
        extents: where its rows are.
        is_over: no commit is left to do. Its rows may be invisible for a moment yet.
    """

    extents: Extents
    is_over: bool


def merged(several: Iterable[Extents]) -> dict[TopicIdPartition, Extent]:
    """From the first row of any to the last row of any."""
    found: dict[TopicIdPartition, Extent] = {}
    for extents in several:
        for partition, extent in extents.items():
            known = found.get(partition, extent)
            found[partition] = Extent(min(known.first, extent.first), max(known.last, extent.last))
    return found


# Within a step --------------------------------------------------------------------------------------------------------


def put(view: ZnodeView, prefix: str, number: int, extents: Extents) -> None:
    """Record the extents of a round, in addition to those that are recorded already.

    Raises:
        UsageError: the batch has rows in more partitions than one znode can name.
    """
    if len(extents) > MAX_PARTITIONS:
        raise UsageError(
            "the batch has rows in more partitions than one decision can name; write to fewer partitions or topics",
            partitions=len(extents),
            maximum=MAX_PARTITIONS,
        )
    if not extents:
        return
    path = _path(prefix, number)
    known = view.get(path)
    if known is None:
        view.create(path, encode(extents))
    else:
        view.set(path, encode(merged([decode(path, known.data), extents])))


def _path(prefix: str, number: int) -> str:
    return f"{paths.named(ROOT, prefix)}/{number}"


# Reading --------------------------------------------------------------------------------------------------------------


def read(reader: ZnodeReader, prefix: str) -> dict[int, dict[TopicIdPartition, Extent]]:
    """The extents of a prefix by round, oldest first."""
    folder = paths.named(ROOT, prefix)
    while True:
        names = reader.children(folder)
        found = {name: decode(f"{folder}/{name}", znode.data) for name, znode in reader.children_data(folder)}
        if list(found) == names:  # otherwise some were merged meanwhile, in a store whose reads are not atomic
            return dict(sorted((_number(folder, name), extents) for name, extents in found.items()))


def _number(folder: str, name: str) -> int:
    if not paths.is_number(name):
        raise CorruptDataError("not the path of extents", path=f"{folder}/{name}")
    return int(name)


def prefixes(reader: ZnodeReader) -> list[str]:
    """All prefixes with extents."""
    return [paths.name_of(name) for name in reader.children(ROOT)]


# Merging --------------------------------------------------------------------------------------------------------------


def merge_old(store: ZnodeStore, prefix: str, before: int, kept: int = KEPT) -> None:
    """Merge the oldest extents of a prefix if there are more than are kept.

    Args:
        before: the oldest round that may not be over; it and later ones are left alone.
        kept: how many extents are kept.
    """
    old = _beyond(read(store, prefix), kept)
    numbers = [number for number in old if number < before]
    if len(numbers) < 2:
        return

    def step(view: ZnodeView) -> None:
        there = {number: path for number in numbers if view.get(path := _path(prefix, number)) is not None}
        if len(there) < len(numbers):
            return  # somebody else merged them
        several = [decode(path, znode.data) for path in there.values() if (znode := view.get(path)) is not None]
        view.set(there[numbers[-1]], encode(merged(several)))
        for number in numbers[:-1]:
            view.delete(there[number])

    resolving(lambda: store.transact(step))


def _beyond(found: Mapping[int, Extents], kept: int) -> Sequence[int]:
    """The rounds beyond the newest ones that have `kept` extents together, oldest first."""
    count, newest = 0, max(found, default=0)
    old = []
    for number, extents in sorted(found.items(), reverse=True):
        count += len(extents)
        if count > kept and number != newest:
            old.append(number)
    return old[::-1]


# In a znode -----------------------------------------------------------------------------------------------------------


def encode(extents: Extents) -> bytes:
    """Extents as their znode's data."""
    found = sorted(extents.items())
    topics = [
        [*topic, [[partition.partition, *extent] for partition, extent in rows]]
        for topic, rows in groupby(found, key=lambda row: (row[0].topic, row[0].topic_id))
    ]
    return paths.encode({"topics": topics})


def decode(path: str, data: bytes) -> dict[TopicIdPartition, Extent]:
    """The extents in a znode.

    Raises:
        CorruptDataError, UnsupportedFormatError: see `paths.decode`.
    """
    return paths.decode(path, data, _from_json)


def _from_json(payload: dict[str, Any]) -> dict[TopicIdPartition, Extent]:
    if set(payload) != {"version", "topics"}:
        raise ValueError("extents have other fields")
    found = {}
    for topic, topic_id, rows in fields.several(fields.rows, payload["topics"]):
        found.update(of_topic(fields.text(topic), fields.text(topic_id), rows))
    return found


def of_topic(topic: str, topic_id: str, rows: Any) -> dict[TopicIdPartition, Extent]:
    """The extents in one topic, from its partitions' numbers, first and last offsets.

    Raises:
        ValueError: that is not what the rows are.
    """
    found = {}
    for number, first, last in fields.several(fields.rows, rows):
        extent = Extent(fields.number(first), fields.number(last, least=first))
        found[TopicIdPartition(topic, topic_id, fields.number(number))] = extent
    return found
