"""Files of rows: leaves and parents of the index, and manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from itertools import pairwise
from random import Random
from typing import Any

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec, index_files
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, Manifest, Marker, TailNode
from oncelog.types import Block, Outcome, ProducerIdAndEpoch
from tests.fuzz.mutators import NUMBERS, mutated, mutated_tree, parsed, written
from tests.fuzz.target import Target, Verdict, expect
from tests.golden.write_v1 import SYNC_MARKER, _Bytes
from tests.support.log.logs import MemoryFiles

NAME = "index/00000001-a.avro"
REFUSALS = (CorruptDataError, UnsupportedFormatError)
PAIRS = (ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(8, 3), ProducerIdAndEpoch(2**40, 32766))

Row = dict[str, Any]


def _blocks(count: int) -> list[Block]:
    return [Block("data/00000001-b.avro", 1000 * at, 990, 77 * at, 1 + at % 4, 5 * at, 9 * at) for at in range(count)]


def _entries() -> list[IndexEntry]:
    """Batches of transactions and outside of them, and markers of every outcome."""
    entries: list[IndexEntry] = []
    offset = 100
    for at, block in enumerate(_blocks(40)):
        owner = (None, "/transactions/a/7.0", "/queries/q/rounds/3")[at % 3]
        entries.append(IndexEntry(offset, block.count, PAIRS[at % 3], 5 * at, owner, block, None))
        offset += block.count
        if at % 5 == 4:
            marker = Marker((Outcome.COMMIT, Outcome.ABORT)[at % 2], offset - 3, PAIRS[: at % 3])
            entries.append(IndexEntry(offset, 1, PAIRS[0], -1, "/transactions/a/7.0", None, marker))
            offset += 1
    return entries


class _RowFile(Target):
    """Three valid files, with what names each of them and its rows."""

    weight = 0.6

    def prepare(self) -> None:
        self._files = MemoryFiles()
        writer = IndexFiles(self._files)
        entries, blocks = _entries(), _blocks(30)
        leaf = writer.write_leaf(NAME, entries)
        children = [IndexRef(f"index/{at}", 0, 10 * at, 10 * at + 10, 4, 9, 99, at, at or None) for at in range(16)]
        parent = writer.write_parent(f"{NAME}-1", children)
        writer.write_manifest(f"{NAME}-2", blocks)
        manifest = Manifest(f"{NAME}-2", len(blocks), PAIRS[1], 2**31 - 9, "/transactions/a/8.3")
        node = TailNode(50, 50 + sum(b.count for b in blocks), 0, 0, 0, manifest=manifest)
        self.rows: list[tuple[Any, ...]] = [tuple(entries), tuple(children), writer.tail_entries(node)]
        self.read: list[Callable[[IndexFiles], tuple[Any, ...]]] = [
            lambda files: files.leaf(leaf),
            lambda files: files.children(parent),
            lambda files: files.tail_entries(node),
        ]
        self.names = [NAME, f"{NAME}-1", f"{NAME}-2"]
        self.schemas = [index_files.ENTRY_SCHEMA, index_files.REF_SCHEMA, index_files.MANIFEST_SCHEMA]
        # Written once more by a marker that is always the same.
        self.data = [
            _written(schema, codec.read_rows(self._files.contents[name], schema, name))
            for schema, name in zip(self.schemas, self.names, strict=True)
        ]

    def valid(self) -> Iterable[bytes]:
        return [bytes([at]) + data for at, data in enumerate(self.data)]

    def answer(self, data: bytes) -> tuple[int, tuple[Any, ...] | None]:
        """Which file it is, and its rows; None where they are refused with its name."""
        at = data[0] % 3
        files = MemoryFiles()
        files.contents[self.names[at]] = data[1:]
        try:
            return at, self.read[at](IndexFiles(files))
        except REFUSALS as error:
            expect(error.fields["file"] == self.names[at], "the error names another file", fields=error.fields)
            return at, None


def _written(schema: Row, rows: Sequence[Row]) -> bytes:
    """What `codec.write_rows` writes, by a sync marker that is always the same."""
    metadata = {codec.VERSION_KEY: str(codec.ROWS_VERSION)}
    return _sealed(codec._container(schema, rows, SYNC_MARKER, metadata))


def _sealed(container: bytes, changes: dict[str, str] | None = None) -> bytes:
    """A container with the CRC-32 of what is in it; `changes` of its metadata come first."""
    header = codec._read_header(container, "")
    blocks = container[header.length :]
    metadata = {key: value for key, value in header.metadata.items() if key != codec.CRC_KEY}
    metadata |= {key: value.encode("utf-8", "replace") for key, value in (changes or {}).items()}
    crc32 = codec._rows_crc32(header._replace(metadata=metadata), memoryview(blocks))
    output = _Bytes()
    fields = {"magic": b"Obj\x01", "meta": metadata | {codec.CRC_KEY: str(crc32).encode()}, "sync": header.sync_marker}
    with_header = BytesIO()
    codec._write(codec._HEADER_SCHEMA, fields, with_header)
    output.write(with_header.getvalue() + blocks)
    return output.data


class RowFile(_RowFile):
    """A mutated file of rows: the very rows that were written, or a clear error.

    Oracle: the rows before the mutation. The CRC-32 in the header covers metadata, marker and blocks.
    """

    name = "rows-file"

    def make(self, chance: Random) -> bytes:
        at = chance.randrange(3)
        return bytes([at]) + mutated(chance, self.data[at], self.data)

    def check(self, data: bytes) -> Verdict:
        at, found = self.answer(data)
        expect(found is None or found == self.rows[at], "other rows than were written")
        return Verdict.REFUSED if found is None else Verdict.CORRECT


class RowContent(_RowFile):
    """A file of rows past its CRC: other rows, another schema, other blocks under a right CRC.

    Oracle: whoever forges a CRC decides on the values. But what is read follows without a gap or overlap from where the
    ref says to where it says, each entry is a batch or a marker, and each value has the type of its field.
    """

    name = "rows-file-content"

    def make(self, chance: Random) -> bytes:
        at = chance.randrange(3)
        match chance.randrange(4):
            case 0:
                schema = written(
                    mutated_tree(chance, parsed(json.dumps(self.schemas[at])), [parsed('["null","long"]')])
                )
                data = _sealed(self.data[at], {"avro.schema": schema})
            case 1:
                container = mutated(chance, self.data[at][-900:], self.data)
                data = self._resealed(self.data[at][:-900] + container, at)
            case 2:
                data = _sealed(self.data[at], {chance.choice(("avro.codec", codec.VERSION_KEY)): _other_text(chance)})
            case _:
                data = self._with_other_rows(chance, at)
        return bytes([at]) + data

    def _resealed(self, container: bytes, at: int) -> bytes:
        try:
            return _sealed(container)
        except CorruptDataError:
            return container

    def _with_other_rows(self, chance: Random, at: int) -> bytes:
        rows = codec.read_rows(self.data[at], self.schemas[at], NAME)
        for _ in range(chance.choice((1, 1, 2))):
            _change_row(chance, rows)
        try:
            return _written(self.schemas[at], rows)
        except (ValueError, OverflowError, TypeError, KeyError, AttributeError):  # no such Avro value
            return self.data[at][:-1]

    def check(self, data: bytes) -> Verdict:
        at, found = self.answer(data)
        if found is None:
            return Verdict.REFUSED
        bounds = [(row.start, row.end) if at == 1 else (row.base_offset, row.end_offset) for row in found]
        known = [(row.start, row.end) if at == 1 else (row.base_offset, row.end_offset) for row in self.rows[at]]
        expect((bounds[0][0], bounds[-1][1]) == (known[0][0], known[-1][1]), "rows of another range")
        expect(all(a[1] == b[0] for a, b in pairwise(bounds)), "rows with a gap or an overlap")
        expect(at == 1 or all((row.block is None) != (row.marker is None) for row in found), "an entry of nothing")
        expect(at != 1 or all(row.level == 0 for row in found), "a child of another level")
        for row in found:
            _expect_like(row, self.rows[at][0])
        return Verdict.CORRECT


def _expect_like(row: Any, known: Any) -> None:
    for name in type(known).__slots__:
        value, kind = getattr(row, name), type(getattr(known, name))
        expect(
            value is None or kind is type(None) or type(value) is kind,
            "a value of another type",
            name=name,
            value=value,
        )
    if isinstance(row, IndexEntry) and row.block is not None:
        expect(all(type(getattr(row.block, name)) is int for name in Block.__slots__[1:]), "no numbers in a block")


def _other_text(chance: Random) -> str:
    return chance.choice(
        ("", "null", "deflate", "zstandard", "snappy", "xz", "2", "0", "-1", "1.0", "9" * 5000, "é", "x")
    )


def _change_row(chance: Random, rows: list[Row]) -> None:
    at, other = chance.randrange(len(rows)), chance.randrange(len(rows))
    match chance.randrange(6):
        case 0:
            del rows[at]
            rows += [] if rows else [{}]
        case 1:
            rows.insert(other, rows[at])
        case 2:
            rows[at], rows[other] = rows[other], rows[at]
        case _:
            holder = rows[at]
            inner = [value for value in holder.values() if isinstance(value, dict)]
            holder = rows[at] = dict(holder)
            if inner and chance.random() < 0.5:
                name = next(name for name, value in holder.items() if value is inner[0])
                holder[name] = holder = dict(inner[0])
            name = chance.choice(list(holder))
            value = holder[name]
            if type(value) is int:
                holder[name] = chance.choice((value + 1, value - 1, -value, chance.choice(NUMBERS)))
            elif type(value) is str:
                holder[name] = chance.choice(("", "abort", "maybe", "../x", "data/\0", "é" * 100, value * 2))
            else:
                holder[name] = None


TARGETS: dict[str, Callable[[], Target]] = {kind.name: kind for kind in (RowFile, RowContent)}
