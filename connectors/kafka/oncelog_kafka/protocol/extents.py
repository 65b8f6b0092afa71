"""Where the rows of decided batches are: first and last offset in each partition, for readers of whole batches.

    /kafka/<prefix>/extents-<n>-<lease>             of round n
    /kafka_batch_writes/<prefix>/extents-<n>-0      of batch writes that are over, whose ledgers are deleted

A decision writes the extents of its round in the same multi. So they are there before a row of it can be visible, and
those of a round that is not decided never are. What is rewritten under another lease adds its own. Extents outlive the
round's record: a batch that is over can still be cut by the ends of a reader that is behind, that has a limit, or that
another batch holds back.

To keep them few, old ones are merged. A reader takes merged batches for one batch, and sees them at one moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from oncelog.errors import UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import TopicIdPartition
from oncelog.znodes import fields, paths
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_below

BATCH_WRITES = "/kafka_batch_writes"

MAX_PARTITIONS = 10_000
"""A batch's extents are one znode of at most 512 kB, at up to 50 bytes a partition. Of merged ones, those beyond are
dropped that were not written to for longest, such as those of topics that are gone."""

KEPT = 1_000
"""How many extents of a prefix are kept before old ones are merged; those of the newest batch always are."""

READ_AGAIN = 10_000
"""Znodes whose content a process keeps: those of a hundred queries."""

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
    """From the first row of any to the last row of any; partitions in the order in which they were written to last."""
    found: dict[TopicIdPartition, Extent] = {}
    for extents in several:
        for partition, extent in extents.items():
            known = found.pop(partition, extent)
            found[partition] = Extent(min(known.first, extent.first), max(known.last, extent.last))
    return dict(list(found.items())[-MAX_PARTITIONS:])


# Within a step --------------------------------------------------------------------------------------------------------


def put(view: ZnodeView, folder: str, number: int, lease: int, extents: Extents) -> None:
    """Record the extents of a round that is being decided, or of what is rewritten of it under a new lease.

    It reads nothing but the folder, which is the ledger that the step has read already.

    Raises:
        UsageError: the batch has rows in more partitions than one znode can name.
    """
    if len(extents) > MAX_PARTITIONS:
        raise UsageError(
            "the batch has rows in more partitions than one decision can name; write to fewer partitions or topics",
            partitions=len(extents),
            maximum=MAX_PARTITIONS,
        )
    if extents:
        view.create_blind(_Name(number, lease).below(folder), encode(extents))


def put_over(view: ZnodeView, folder: str, extents: Extents) -> None:
    """Add those of a batch that is over, and merge all if they are many."""
    known = _named(view.children(folder))
    if len(known) >= MERGED_EVERY:
        found = [decode(path, data) for path, data in _data(view, folder, known)]
        for name in known:
            view.delete(name.below(folder))
        extents = merged([*found, extents])
    if extents:
        number = max((name.number for name in known), default=0) + 1
        view.create(_Name(number, 0).below(folder), encode(extents))


def delete(view: ZnodeView, folder: str) -> dict[TopicIdPartition, Extent]:
    """Delete the extents in a folder; returns them, merged."""
    known = _named(view.children(folder))
    found = [decode(path, data) for path, data in _data(view, folder, known)]
    for name in known:
        view.delete(name.below(folder))
    return merged(found)


# Reading --------------------------------------------------------------------------------------------------------------


def read(reader: ZnodeReader, folder: str) -> dict[int, Extents]:
    """The extents in a folder by round, oldest first."""
    while True:
        known = _named(reader.children(folder))
        data = _data(reader, folder, known)
        if len(data) == len(known):  # otherwise some were merged meanwhile, in a store whose reads are not atomic
            break
    found: dict[int, list[Extents]] = {}
    for name, (path, content) in zip(known, data, strict=True):
        found.setdefault(name.number, []).append(decode(path, content))
    return {number: several[0] if len(several) == 1 else merged(several) for number, several in found.items()}


def folders_of_batch_writes(reader: ZnodeReader) -> list[str]:
    """Where the extents of batch writes that are over are."""
    return paths_below(reader, BATCH_WRITES)


class _Name(NamedTuple):
    number: int
    lease: int

    def below(self, folder: str) -> str:
        return f"{folder}/extents-{self.number}-{self.lease}"


_NAME = re.compile("extents-([0-9]{1,19})-([0-9]{1,19})")


def _named(children: Iterable[str]) -> list[_Name]:
    """The extents among a folder's children, oldest first."""
    return sorted(_Name(int(one[1]), int(one[2])) for one in map(_NAME.fullmatch, children) if one is not None)


def _data(reader: ZnodeReader, folder: str, names: Iterable[_Name]) -> list[tuple[str, bytes]]:
    """Path and data of those that are there."""
    wanted = [name.below(folder) for name in names]
    return [
        (path, znode.data) for path, znode in zip(wanted, reader.get_many(wanted), strict=True) if znode is not None
    ]


# Merging --------------------------------------------------------------------------------------------------------------


def merge_old(store: ZnodeStore, folder: str, before: int, kept: int) -> None:
    """Merge the oldest extents of a folder if there are more than are kept.

    Args:
        before: the oldest round that may not be over; it and later ones are left alone.
        kept: how many extents are kept.
    """
    old = {number for number in _beyond(read(store, folder), kept) if number < before}

    def step(view: ZnodeView) -> None:
        names = [name for name in _named(view.children(folder)) if name.number in old]
        found = [decode(path, data) for path, data in _data(view, folder, names)]
        for name in names[:-1]:
            view.delete(name.below(folder))
        if names:
            view.set(names[-1].below(folder), encode(merged(found)))

    if len(old) > 1:
        resolving(lambda: store.transact(step))


def _beyond(found: Mapping[int, Extents], kept: int) -> Iterator[int]:
    """The rounds beyond the newest ones that have `kept` extents together."""
    count, newest = 0, max(found, default=0)
    for number, extents in sorted(found.items(), reverse=True):
        count += len(extents)
        if count > kept and number != newest:
            yield number


# In a znode -----------------------------------------------------------------------------------------------------------


def encode(extents: Extents) -> bytes:
    """Extents as their znode's data."""
    topics = [
        [*topic, [[partition.partition, *extent] for partition, extent in rows]]
        for topic, rows in groupby(extents.items(), key=lambda row: (row[0].topic, row[0].topic_id))
    ]
    return paths.encode({"topics": topics})


@lru_cache(maxsize=READ_AGAIN)
def decode(path: str, data: bytes) -> Extents:
    """The extents in a znode. A reader reads the same ones for each of its plans.

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
