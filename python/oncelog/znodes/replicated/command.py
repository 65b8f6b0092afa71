"""What an entry of the command log holds: multis, or a part of a snapshot.

An entry is the length of its JSON (four bytes), the JSON, and data: of the multis' creates and sets, one after the
other, or the snapshot's. It holds low-level operations alone, so that what they do never depends on the version of
oncelog that replays them.

The JSON of every version begins with the field ``version``. A log that others can write to, such as a topic, leaves out
what does not begin like this (`is_entry`). Assumptions: the log verifies the checksum of a record before it leaves the
record out, and oncelog appends nothing but what `encode` returns. Hence what is left out was written like that, and not
by oncelog. Even without the checksum, an entry with a changed byte is still recognised, and then it is damaged.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.ports import Check, Create, Delete, Op, Set
from oncelog.znodes.replicated.port import Entry

VERSION: Final = 1
_LENGTH = struct.Struct(">I")
_BEGINNING: Final = b'{"version":'


@dataclass(frozen=True, slots=True)
class Batch:
    """Multis that one append holds, to be carried out in this order, each for itself.

    Attributes:
        sender: one connection of one process to the log.
        number: of the sender's batches, growing by one. A copy of a batch has the same one, and does nothing.
        seen: position of the last entry that the sender had replayed.
        chain: what `Replica.chain` was there, so that a log which lost or changed an entry is noticed.
        multis: their operations.
    """

    sender: str
    number: int
    seen: int
    chain: int
    multis: Sequence[Sequence[Op]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a snapshot.

    Attributes:
        position: of the last entry that the snapshot holds.
        writer: of the snapshot; several may write one at a time.
        number, count: of the parts, from 0.
        data: of this part.
    """

    position: int
    writer: str
    number: int
    count: int
    data: bytes


def encode(entry: Batch | Part) -> bytes:
    """The entry's bytes."""
    if isinstance(entry, Part):
        place = [entry.position, entry.writer, entry.number, entry.count]
        return packed({"version": VERSION, "snapshot": place}, [entry.data])
    data: list[bytes] = []
    about = {
        "version": VERSION,
        "sender": entry.sender,
        "number": entry.number,
        "seen": entry.seen,
        "chain": entry.chain,
        "multis": [[_packed(op, data) for op in ops] for ops in entry.multis],
    }
    return packed(about, data)


def packed(about: Mapping[str, Any], data: Sequence[bytes]) -> bytes:
    """JSON and data behind it."""
    text = json.dumps(about, separators=(",", ":")).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *data])


def unpacked(body: bytes) -> tuple[Any, Data]:
    """The JSON and the data of `packed`. Raises ValueError or struct.error where it is none."""
    (length,) = _LENGTH.unpack_from(body)
    return json.loads(body[_LENGTH.size : _LENGTH.size + length]), Data(body, _LENGTH.size + length)


def is_entry(body: bytes) -> bool:
    """Whether a body begins as an entry of oncelog does, even if it was damaged or cut off later.

    Up to a quarter of the bytes may differ.
    """
    found = body[_LENGTH.size : _LENGTH.size + len(_BEGINNING)]
    wrong = sum(one != other for one, other in zip(found, _BEGINNING, strict=False))
    return bool(found) and 4 * wrong <= len(found)


def decode(entry: Entry) -> Batch | Part:
    """What an entry holds.

    Raises:
        CorruptDataError: it is none.
        UnsupportedFormatError: a later version of oncelog wrote it.
    """
    try:
        about, data = unpacked(entry.body)
        if about["version"] > VERSION:
            raise UnsupportedFormatError(
                "a newer oncelog wrote to this command log; update this one",
                position=entry.position,
                version=about["version"],
                known=VERSION,
            )
        if "snapshot" in about:
            of, writer, number, count = about["snapshot"]
            return Part(of, writer, number, count, data.take(data.left))
        multis = [[_unpacked(op, data) for op in ops] for ops in about["multis"]]
        if data.left:
            raise ValueError(f"{data.left} bytes are left over")
        return Batch(about["sender"], about["number"], about["seen"], about["chain"], multis)
    except (ValueError, KeyError, TypeError, struct.error) as problem:
        raise CorruptDataError(
            "an entry of the command log is damaged, or not one of oncelog's",
            position=entry.position,
            problem=str(problem),
        ) from None


class Data:
    """The data behind JSON, taken piece by piece."""

    def __init__(self, body: bytes, position: int) -> None:
        self._body, self._position = body, position

    @property
    def left(self) -> int:
        """Bytes that were not taken yet."""
        return len(self._body) - self._position

    def take(self, size: int) -> bytes:
        """The next bytes. Raises ValueError where there are not so many."""
        if not 0 <= size <= self.left:
            raise ValueError("it ends too early")
        self._position += size
        return self._body[self._position - size : self._position]


def _packed(op: Op, data: list[bytes]) -> list[Any]:
    match op:
        case Check(path, version):
            return ["check", path, version]
        case Create(path, content):
            data.append(content)
            return ["create", path, len(content)]
        case Set(path, content, version):
            data.append(content)
            return ["set", path, len(content), version]
        case Delete(path, version):
            return ["delete", path, version]


def _unpacked(packed: Sequence[Any], data: Data) -> Op:
    match packed:
        case ["check", str(path), int(version)]:
            return Check(path, version)
        case ["create", str(path), int(size)]:
            return Create(path, data.take(size))
        case ["set", str(path), int(size), int(version)]:
            return Set(path, data.take(size), version)
        case ["delete", str(path), int(version)]:
            return Delete(path, version)
    raise ValueError(f"an unknown operation {packed!r}")
