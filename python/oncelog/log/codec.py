"""Reads and writes Avro: the blocks of data files, and files of rows. No other module may import fastavro.

A data file is an Avro object container in which each block holds one Avro record: a record batch (`columns`). An index
entry has a block's position and CRC-32, so that a reader reads only this block. It checks, in this order: length, CRC,
framing, version, content. Files of rows (index files, manifests) are read as a whole, and have their CRC-32 in the
header.

Modules outside of log/ also get `RECORD_SCHEMA` and `normalise` from here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import columns as batch_columns
from oncelog.log.columns import BATCH_SCHEMA, CODECS, FORMAT_VERSION, Field, check_codec
from oncelog.log.records import RECORD_SCHEMA, normalise
from oncelog.ports import OutputFile
from oncelog.randomness import random_bytes
from oncelog.types import Block

__all__ = [
    "CODECS",
    "FRAMING_MAX_BYTES",
    "RECORD_SCHEMA",
    "SYNC_BYTES",
    "VERSION_KEY",
    "DecodedBlock",
    "EncodedBlock",
    "Header",
    "Place",
    "block_length",
    "check_codec",
    "decode_block",
    "encode_block",
    "file_header",
    "new_sync_marker",
    "normalise",
    "read_data_header",
    "read_rows",
    "write_rows",
]

SYNC_BYTES = 16
FRAMING_MAX_BYTES = 20
"""Two Avro longs before a block's content: the number of records, and the number of bytes."""

JOINED_BYTES = 16 * 1024
"""A body up to this size is copied, so that its block is written at once: a system call for each part costs more."""

ROWS_VERSION = 1
"""Version of the format of files of rows. The rows' own schemas may get new fields with defaults."""

_ROWS_CODECS = (b"deflate", b"null", None)

VERSION_KEY = "oncelog.version"
CRC_KEY = "oncelog.crc32"

_MAGIC = b"Obj\x01"
_HEADER_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}},
        ],
    }
)
# Avro writes the fields of a record one after another. So the fields before the body, and its length, are written and
# read as a separate record, and the body bypasses fastavro, which would copy it twice.
_FIELDS_SCHEMA = fastavro.parse_schema(
    {**BATCH_SCHEMA, "fields": [*BATCH_SCHEMA["fields"][:-1], {"name": "body_length", "type": "long"}]}
)
_FRAMING_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Framing",
        "fields": [{"name": "count", "type": "long"}, {"name": "length", "type": "long"}],
    }
)

_UNREADABLE = (
    EOFError,
    LookupError,
    ValueError,
    OSError,
    ArithmeticError,
    AttributeError,  # this and the next two: the schema in a header is malformed
    TypeError,
    RecursionError,
    zlib.error,
    fastavro.schema.SchemaParseException,
    fastavro.read.SchemaResolutionError,
)
"""What fastavro and pyarrow raise on damaged bytes. MemoryError is not included: it does not mean damage."""


class Place(NamedTuple):
    """Where bytes came from, for errors."""

    file: str
    position: int = 0


class Header(NamedTuple):
    """The header of an Avro object container: its metadata, the marker after each block, and its length."""

    metadata: dict[str, bytes]
    sync_marker: bytes
    length: int


class EncodedBlock(NamedTuple):
    """A record batch ready to be written: its bytes in parts, and their block for the index."""

    parts: Sequence[bytes | memoryview]
    block: Block


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """A record batch that was read, with the count and bounds that it states."""

    records: pa.RecordBatch
    count: int
    min_timestamp_ms: int
    max_timestamp_ms: int


# Data files -----------------------------------------------------------------------------------------------------------


def new_sync_marker() -> bytes:
    """A random marker for each file, so that its bytes do not occur in a block by chance."""
    return random_bytes(SYNC_BYTES)


def file_header(sync_marker: bytes) -> bytes:
    """The header of a data file."""
    return _header_but_marker() + sync_marker


@cache
def _header_but_marker() -> bytes:
    output = BytesIO()
    fastavro.writer(output, BATCH_SCHEMA, [], metadata={VERSION_KEY: str(FORMAT_VERSION)})
    return output.getvalue()[:-SYNC_BYTES]


def encode_block(records: pa.RecordBatch, codec: str, sync_marker: bytes, place: Place) -> EncodedBlock:
    """Encode a record batch of `RECORD_SCHEMA` as one block of a data file, to be written at `place`."""
    batch, buffers = batch_columns.encode(records, codec)
    body_length = sum(buffer.size for buffer in buffers)
    fields = BytesIO()
    _write(_FIELDS_SCHEMA, {**batch, "body_length": body_length}, fields)
    framing = BytesIO()
    _write(_FRAMING_SCHEMA, {"count": 1, "length": fields.tell() + body_length}, framing)
    parts: list[bytes | memoryview] = [framing.getvalue() + fields.getvalue()]
    parts += map(memoryview, buffers)
    parts.append(sync_marker)
    if body_length <= JOINED_BYTES:
        parts = [b"".join(parts)]
    length, crc32 = 0, 0
    for part in parts:
        length += len(part)
        crc32 = zlib.crc32(part, crc32)
    bounds = batch["min_timestamp_ms"], batch["max_timestamp_ms"]
    return EncodedBlock(parts, Block(*place, length, crc32, batch["count"], *bounds))


def decode_block(data: bytes, place: Place, columns: Sequence[str] | None = None) -> DecodedBlock:
    """Decode the bytes of one block into its record batch, or only into some of its columns.

    Raises:
        CorruptDataError: the bytes are not what was written.
        UnsupportedFormatError: a newer oncelog wrote them.
    """
    try:
        source = BytesIO(data)
        end = _read_framing(source, len(data))
        start = source.tell()
        _check_version(_read("int", source), FORMAT_VERSION, place)
        source.seek(start)
        batch = _read(_FIELDS_SCHEMA, source)
        body_length = batch["body_length"]
        if source.tell() + body_length != end:
            raise ValueError(f"a body of {body_length} bytes at {source.tell()} of {end}")
        body = pa.py_buffer(data).slice(source.tell(), body_length)
        records = batch_columns.decode(batch, body, columns)
    except _UNREADABLE as error:
        raise _corrupt("a block of a data file does not hold a record batch", place, error) from error
    return DecodedBlock(records, batch["count"], batch["min_timestamp_ms"], batch["max_timestamp_ms"])


def _read_framing(source: BytesIO, length: int) -> int:
    """Read the framing of a block; returns the position at which its content ends."""
    framing = _read(_FRAMING_SCHEMA, source)
    end = source.tell() + framing["length"]
    if framing["count"] != 1 or end + SYNC_BYTES != length:
        raise ValueError(f"a block of {framing['count']} Avro records in {framing['length']} of {length} bytes")
    return int(end)


def block_length(framing: bytes, place: Place) -> int:
    """Length in bytes of the block that begins with `framing`, including the sync marker.

    Raises:
        CorruptDataError: this is not the beginning of a block.
    """
    try:
        start = BytesIO(framing)
        length = _read(_FRAMING_SCHEMA, start)["length"]
        if length < 0:
            raise ValueError(f"a block of {length} bytes")
    except _UNREADABLE as error:
        raise _corrupt("this is not the beginning of a block", place, error) from error
    return start.tell() + int(length) + SYNC_BYTES


def read_data_header(data: bytes, name: str) -> Header:
    """The header of a data file, from the file's first bytes.

    Raises:
        CorruptDataError: this is not a data file.
        UnsupportedFormatError: a newer oncelog wrote it.
    """
    header = _read_header(data, name)
    _check_header_version(header, FORMAT_VERSION, name)
    return header


# Files of rows --------------------------------------------------------------------------------------------------------


def write_rows(output: OutputFile, schema: Field, rows: Iterable[Field]) -> None:
    """Write all rows of a file of rows.

    Args:
        output: an empty file; the caller finishes it.
        schema: Avro schema of a row; a record.
        rows: in fastavro's form.
    """
    sync_marker = new_sync_marker()
    metadata = {VERSION_KEY: str(ROWS_VERSION)}
    container = _container(schema, rows, sync_marker, metadata)
    header = _read_header(container, "")
    blocks = memoryview(container)[header.length :]
    metadata[CRC_KEY] = str(_rows_crc32(header, blocks))
    output.write(_container(schema, [], sync_marker, metadata))
    output.write(blocks)


def read_rows(data: bytes, schema: Field, name: str) -> list[Field]:
    """Read a file of rows.

    Args:
        data: all bytes of the file.
        schema: the current Avro schema; its defaults fill in fields that an older file lacks.
        name: of the file, for errors.

    Raises:
        CorruptDataError: the bytes are not what was written, or rows of another kind.
        UnsupportedFormatError: a newer oncelog wrote them.
    """
    header = _read_header(data, name)
    _check_header_version(header, ROWS_VERSION, name)
    crc32 = _rows_crc32(header, memoryview(data)[header.length :])
    if header.metadata.get(CRC_KEY) != str(crc32).encode():
        raise CorruptDataError("a file does not hold what was written", file=name, found_crc32=crc32)
    if header.metadata.get("avro.codec") not in _ROWS_CODECS:
        raise CorruptDataError("unsupported codec in the file header", file=name)
    # Resolving between two schemas costs more than reading; it is skipped if they are the same.
    is_same = header.metadata.get("avro.schema") == json.dumps(schema).encode()
    try:
        rows: list[Any] = list(fastavro.reader(BytesIO(data), reader_schema=None if is_same else schema))
        if not is_same:
            _check_rows(rows, schema)  # the writer's logical types may give values of other types, such as times
        return rows
    except _UNREADABLE as error:
        raise _corrupt("a file does not hold rows of the expected kind", Place(name), error) from error


def _check_rows(rows: Iterable[Any], schema: Field) -> None:
    parsed = fastavro.parse_schema(schema)
    if not all(fastavro.validate(row, parsed, raise_errors=False) for row in rows):
        raise ValueError("rows that do not match the schema")


def _container(schema: Field, rows: Iterable[Field], sync_marker: bytes, metadata: dict[str, str]) -> bytes:
    output = BytesIO()
    fastavro.writer(output, schema, rows, codec="deflate", metadata=dict(metadata), sync_marker=sync_marker)
    return output.getvalue()


def _rows_crc32(header: Header, blocks: memoryview) -> int:
    """The CRC-32 of metadata (without the CRC itself), sync marker and blocks."""
    metadata = sorted((key.encode(), value) for key, value in header.metadata.items() if key != CRC_KEY)
    beginning = b"".join(key + value for key, value in metadata) + header.sync_marker
    return zlib.crc32(blocks, zlib.crc32(beginning))


# Parts ----------------------------------------------------------------------------------------------------------------


def _write(schema: Any, value: Any, output: BytesIO) -> None:
    fastavro.schemaless_writer(output, schema, value)


def _read(schema: Any, source: BytesIO) -> Any:
    return fastavro.schemaless_reader(source, schema, None)


def _read_header(data: bytes, name: str) -> Header:
    source = BytesIO(data)
    try:
        header = _read(_HEADER_SCHEMA, source)
        if header["magic"] != _MAGIC:
            raise ValueError("not an Avro object container")
    except _UNREADABLE as error:
        raise _corrupt("not a file that oncelog wrote", Place(name), error) from error
    return Header(header["meta"], header["sync"], source.tell())


def _check_header_version(header: Header, known: int, name: str) -> None:
    try:
        version = int(header.metadata[VERSION_KEY])
    except (LookupError, ValueError) as error:
        raise _corrupt("not a file that oncelog wrote", Place(name), error) from error
    _check_version(version, known, Place(name))


def _check_version(found: int, known: int, place: Place) -> None:
    if found > known:
        raise UnsupportedFormatError(
            "a newer oncelog wrote this file; upgrade oncelog", **place._asdict(), version=found, known=known
        )
    if found < 1:
        raise CorruptDataError("no version of oncelog writes this", **place._asdict(), version=found)


def _corrupt(message: str, place: Place, reason: Exception) -> CorruptDataError:
    return CorruptDataError(message, **place._asdict(), reason=f"{type(reason).__name__}: {reason}")
