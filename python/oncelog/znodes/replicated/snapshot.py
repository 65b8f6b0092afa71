"""Snapshots: what a replica is made of, in parts that the log keeps among its other entries, and how it starts by one.

A log that was trimmed always has a whole snapshot that ends where its entries begin, or later. What is kept of a
snapshot follows the position that it holds, so trimming up to there leaves the snapshot.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from oncelog.errors import CorruptDataError, StoreUnavailableError
from oncelog.ports import Stat, Znode
from oncelog.znodes.replicated.command import Batch, Part, decode, packed, unpacked
from oncelog.znodes.replicated.port import BEGINNING, CommandLog, Entry, TrimmedError
from oncelog.znodes.replicated.replica import Last, Replica
from oncelog.znodes.tree import Tree

PART_BYTES: Final = 900_000
"""Below the largest message that a Kafka broker takes unless it is told otherwise."""

STARTS: Final = 5
"""How often a log may be trimmed under who starts to read it."""


def load(log: CommandLog) -> Replica:
    """The replica at the end of a log: from its newest whole snapshot on, or from its first entry.

    Raises:
        CorruptDataError: its first entries are gone, and no snapshot says what they did.
        StoreUnavailableError: whenever it was about to be read, it was trimmed.
    """
    for left in reversed(range(STARTS)):
        start = log.start()
        try:
            entries = log.read(start)
        except TrimmedError as trimmed:
            if not left:
                raise StoreUnavailableError(
                    "the command log is trimmed faster than it can be read: make the same call again", start=start
                ) from trimmed
        else:
            break
    found = [(entry, decode(entry)) for entry in entries]
    replica = _newest(found)
    if replica is None or replica.position < start:
        if start != BEGINNING:
            raise CorruptDataError(
                "the command log was trimmed, and has no whole snapshot of what was there", start=start
            )
        replica = Replica()
    saved = replica.position
    for entry, holds in found:
        if entry.position > saved:
            replica.apply(entry, holds)
    return replica


def parts(replica: Replica, writer: str) -> Iterator[Part]:
    """A snapshot of a replica, which may go on meanwhile."""
    position, data = replica.position, _frozen(replica)
    pieces = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
    for number, piece in enumerate(pieces):
        yield Part(position, writer, number, len(pieces), piece)


def _newest(entries: Sequence[tuple[Entry, Batch | Part]]) -> Replica | None:
    """The replica of the newest whole snapshot among entries."""
    found: dict[tuple[int, str], list[bytes]] = {}
    newest: Replica | None = None
    for entry, part in entries:
        if isinstance(part, Part):
            pieces = found.setdefault((part.position, part.writer), [])
            if part.number == len(pieces):
                pieces.append(part.data)
            if len(pieces) == part.count and (newest is None or newest.position < part.position):
                newest = _thawed(b"".join(pieces), entry.position)
    return newest


def _frozen(replica: Replica) -> bytes:
    znodes = replica.tree.znodes
    about = {
        "position": replica.position,
        "chain": replica.chain,
        "time_ms": replica.time_ms,
        "zxid": replica.tree.zxid,
        "last_ms": replica.tree.last_ms,
        "senders": {name: last for name, last in replica.senders.items() if replica.remembers(last)},
        "znodes": [[path, len(znode.data), *znode.stat] for path, znode in znodes.items()],
    }
    return zlib.compress(packed(about, [znode.data for znode in znodes.values()]), 1)


def _thawed(frozen: bytes, position: int) -> Replica:
    try:
        about, data = unpacked(zlib.decompress(frozen))
        znodes = {path: Znode(data.take(size), Stat(*stat)) for path, size, *stat in about["znodes"]}
        senders = {name: Last(*last) for name, last in about["senders"].items()}
        tree = Tree(znodes, about["zxid"], about["last_ms"])
        return Replica(tree, about["position"], about["chain"], about["time_ms"], senders)
    except (ValueError, KeyError, TypeError, struct.error, zlib.error) as problem:
        raise CorruptDataError(
            "a snapshot in the command log is damaged", position=position, problem=str(problem)
        ) from None
