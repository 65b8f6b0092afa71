"""A multi as bytes: what an entry of the command log holds.

An entry is the length of its JSON (four bytes), the JSON, and the data of its creates and sets, one after the other. It
holds low-level operations alone, so that what they do never depends on the version of oncelog that replays them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.ports import Check, Create, Delete, Op, Set

VERSION: Final = 1
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Command:
    """A multi, and who wants it.

    Attributes:
        sender: one connection of one process to the log.
        number: of the sender's commands, growing by one. A copy of a command has the same one, and does nothing.
        ops: the multi.
    """

    sender: str
    number: int
    ops: Sequence[Op]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one append holds.

    Attributes:
        seen: position of the last entry that the sender had replayed, or -1.
        chain: what `Replica.chain` was there, so that a log which lost or changed an entry is noticed.
        commands: to be carried out in this order, each for itself.
    """

    seen: int
    chain: int
    commands: Sequence[Command]


def encode(batch: Batch) -> bytes:
    """The entry's bytes."""
    data: list[bytes] = []
    commands = [
        {"sender": one.sender, "number": one.number, "ops": [_packed(op, data) for op in one.ops]}
        for one in batch.commands
    ]
    about = {"version": VERSION, "seen": batch.seen, "chain": batch.chain, "commands": commands}
    text = json.dumps(about, separators=(",", ":")).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *data])


def decode(body: bytes, position: int) -> Batch:
    """Read an entry.

    Args:
        body: its bytes.
        position: of the entry, for errors.

    Raises:
        CorruptDataError: it is none.
        UnsupportedFormatError: a later version of oncelog wrote it.
    """
    try:
        (length,) = _LENGTH.unpack_from(body)
        about = json.loads(body[_LENGTH.size : _LENGTH.size + length])
        if about["version"] > VERSION:
            raise UnsupportedFormatError(
                "a newer oncelog wrote to this command log; update this one",
                position=position,
                version=about["version"],
                known=VERSION,
            )
        data = _Data(body, _LENGTH.size + length)
        commands = [
            Command(one["sender"], one["number"], [_unpacked(op, data) for op in one["ops"]])
            for one in about["commands"]
        ]
        if data.position != len(body):
            raise ValueError(f"{len(body) - data.position} bytes are left over")
        return Batch(about["seen"], about["chain"], commands)
    except (ValueError, KeyError, TypeError, struct.error) as problem:
        raise CorruptDataError(
            "an entry of the command log is damaged, or not one of oncelog's", position=position, problem=str(problem)
        ) from None


class _Data:
    """The data behind an entry's JSON."""

    def __init__(self, body: bytes, position: int) -> None:
        self._body, self.position = body, position

    def take(self, size: int) -> bytes:
        found = self._body[self.position : self.position + size]
        if len(found) != size:
            raise ValueError("it ends too early")
        self.position += size
        return found


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


def _unpacked(packed: Sequence[Any], data: _Data) -> Op:
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
