"""Data files: a block that the index names, the content of a block alone, and a whole file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from io import BytesIO
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec, columns
from oncelog.log.codec import Place
from oncelog.log.segment import read_block, scan_file
from oncelog.types import Block
from tests.fuzz.mutators import NUMBERS, mutated, varint
from tests.fuzz.target import Target, Verdict, expect
from tests.golden import write_v1
from tests.support.log.logs import MemoryFiles

NAME = "data/00000001-a.avro"
REFUSALS = (CorruptDataError, UnsupportedFormatError)

_FIELDS = fastavro.parse_schema({**columns.BATCH_SCHEMA, "fields": columns.BATCH_SCHEMA["fields"][:-1]})


class _OfFiles(Target):
    """Valid data files of every codec: nulls, headers, empty strings, and a file without any block."""

    def prepare(self) -> None:
        made = [write_v1.data_file(name, NAME) for name in codec.CODECS]
        made += [
            ((write_v1.FOLDER / f"data-v1-{name}.avro").read_bytes(), made[at][1])
            for at, name in enumerate(codec.CODECS)
        ]
        self.files: list[tuple[bytes, list[Block]]] = [*made, (codec.file_header(write_v1.SYNC_MARKER), [])]
        self.contents = [data for data, _ in self.files]
        self.blocks = [
            data[block.position : block.position + block.length] for data, blocks in made[:3] for block in blocks
        ]


class DataBlock(_OfFiles):
    """A block read by its index entry from a mutated file: the rows that were written, or a clear error.

    Oracle: the rows of the file before its mutation. The CRC-32 of the index entry sees every damage of the block; what
    lies beside it does not matter.
    """

    name = "data-block"

    def valid(self) -> Iterable[bytes]:
        for at, (data, blocks) in enumerate(self.files[:3]):
            yield from (bytes([at, which]) + data for which in range(len(blocks)))

    def make(self, chance: Random) -> bytes:
        at = chance.randrange(3)
        data, blocks = self.files[at]
        which = chance.randrange(len(blocks))
        block = blocks[which]
        start = max(block.position - 20, 0)
        inner = mutated(chance, data[start : block.position + block.length + 20], self.blocks)
        return bytes([at, which]) + data[:start] + inner + data[block.position + block.length + 20 :]

    def check(self, data: bytes) -> Verdict:
        at, which = data[0] % 3, data[1]
        blocks = self.files[at][1]
        block = blocks[which % len(blocks)]
        files = MemoryFiles()
        files.contents[NAME] = data[2:]
        try:
            found = read_block(files, block)
        except REFUSALS as error:
            expect(error.fields["file"] == NAME, "the error names another file", fields=error.fields)
            return Verdict.REFUSED
        expected = write_v1.BATCHES[which % len(blocks)]
        expect(found.equals(write_v1.record_batch(expected)), "other rows than were written")
        return Verdict.CORRECT


class BlockContent(_OfFiles):
    """The bytes of a block past its CRC: a structurally sound batch, or a clear error.

    Oracle: whoever forges a CRC decides on the rows, so nothing is known of their values. But the batch has the count
    and the columns it says, each offset stays within its buffer, reading one column gives what reading all gives, and
    its rows can be written and come back.
    """

    name = "data-block-content"

    def valid(self) -> Iterable[bytes]:
        return self.blocks

    def make(self, chance: Random) -> bytes:
        block = chance.choice(self.blocks)
        return mutated(chance, block, self.blocks) if chance.random() < 0.4 else self._with_other_fields(chance, block)

    def _with_other_fields(self, chance: Random, block: bytes) -> bytes:
        """Other places, sizes and counts, in a frame that is right."""
        source = BytesIO(block)
        for _ in range(2):
            fastavro.schemaless_reader(source, "long", None)
        fields: dict[str, Any] = fastavro.schemaless_reader(source, _FIELDS, None)  # type: ignore[assignment]
        fastavro.schemaless_reader(source, "long", None)
        body = block[source.tell() : -codec.SYNC_BYTES]
        for _ in range(chance.choice((1, 1, 2, 3))):
            _change_field(chance, fields, len(body))
        if chance.random() < 0.3:
            body = mutated(chance, body, self.blocks)
        output = BytesIO()
        try:
            fastavro.schemaless_writer(output, _FIELDS, fields)
        except (ValueError, OverflowError, TypeError):  # no Avro number
            return block[:-1]
        content = output.getvalue() + varint(len(body)) + body
        return varint(1) + varint(len(content)) + content + block[-codec.SYNC_BYTES :]

    def check(self, data: bytes) -> Verdict:
        try:
            decoded = codec.decode_block(data, Place(NAME))
        except REFUSALS as error:
            expect(error.fields["file"] == NAME, "the error names another file", fields=error.fields)
            return Verdict.REFUSED
        records = decoded.records
        expect(records.num_rows == decoded.count, "a batch of another count than it says", count=decoded.count)
        expect(records.schema.equals(codec.RECORD_SCHEMA), "a batch of another schema")
        records.validate()
        for name in ("key", "value", "timestamp_ms"):
            records.column(name).validate(full=True)
            alone = codec.decode_block(data, Place(NAME), [name]).records
            expect(alone.column(0).equals(records.column(name)), "one column alone differs", column=name)
        return Verdict.CORRECT


def _change_field(chance: Random, fields: dict[str, Any], body_length: int) -> None:
    places = list(_numbers(fields, ()))
    holder, key = chance.choice(places)
    value = holder[key]
    near = (value + 1, value - 1, value * 2, -value, body_length) if type(value) is int else ()
    match chance.randrange(4):
        case 0 if isinstance(holder.get("validity", 0), dict) or holder.get("validity", 0) is None:
            holder["validity"] = chance.choice((None, holder["values"]))
        case 1:
            holder[key] = chance.choice([number for number in NUMBERS if -(2**63) <= number < 2**63])
        case 2:
            name = chance.choice(("timestamps", "key", "value", "headers", "compression"))
            fields[name] = chance.choice(codec.CODECS) if name == "compression" else None
        case _:
            holder[key] = chance.choice(near or (0,))


def _numbers(holder: dict[str, Any], path: tuple[str, ...]) -> list[tuple[dict[str, Any], str]]:
    found = [(holder, key) for key, value in holder.items() if type(value) is int]
    for value in holder.values():
        if isinstance(value, dict):
            found += _numbers(value, path)
    return found


class WholeFile(_OfFiles):
    """A scan of a mutated file from its header on: its blocks up to the first damage, and then a clear error.

    Oracle: a block that has the CRC-32 it was written with holds the rows it was written with; every other one is valid
    in itself (only the index's CRC tells that it is another). A scan that ends without an error has passed every byte
    of the file: nothing was skipped.
    """

    name = "data-file"

    def prepare(self) -> None:
        super().prepare()
        self.rows = {
            block.crc32: write_v1.record_batch(rows)
            for _, blocks in self.files
            for block, rows in zip(blocks, write_v1.BATCHES, strict=False)
        }

    def valid(self) -> Iterable[bytes]:
        return self.contents

    def make(self, chance: Random) -> bytes:
        data, _ = chance.choice(self.files)
        if chance.random() < 0.3:
            return mutated(chance, data[:1500], self.contents) + data[1500:]  # most of it header
        return mutated(chance, data, self.contents)

    def check(self, data: bytes) -> Verdict:
        files = MemoryFiles()
        files.contents[NAME] = data
        passed: int | None = None
        try:
            for block in scan_file(files, NAME):
                expect(passed in (None, block.position), "bytes between blocks were skipped", passed=passed)
                passed = block.position + block.length
                expect(block.crc32 == zlib.crc32(data[block.position : passed]), "a CRC of other bytes")
                self._check_rows(block.crc32, block.records)
        except REFUSALS as error:
            expect(error.fields["file"] == NAME, "the error names another file", fields=error.fields)
            return Verdict.REFUSED
        header = codec.read_data_header(data, NAME).length
        expect((passed or header) == len(data), "a scan ended before the end of the file", passed=passed)
        return Verdict.CORRECT

    def _check_rows(self, crc32: int, records: pa.RecordBatch) -> None:
        if crc32 in self.rows:
            expect(records.equals(self.rows[crc32]), "other rows under the CRC they were written with")
        records.validate(full=True)


TARGETS: dict[str, Callable[[], Target]] = {kind.name: kind for kind in (DataBlock, BlockContent, WholeFile)}
