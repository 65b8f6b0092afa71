"""Converts the columns of a record batch into one Avro record, and back. Knows nothing of files or of Avro's encoding.

The record's last field, the body, has the columns' buffers in Arrow's memory layout, each compressed separately. The
fields before it say where each buffer is. So a reader decompresses only the columns that it wants, and only the codec
copies bytes.

Measured on 40,000 records against Arrow's own layout, after zstd: lengths in the narrowest integer type take a quarter
of the space and of the time of 32-bit offsets; timestamps relative to the lowest one take a third of the time and at
most twice the space. docs/reference/data-format.md describes the layout for readers in other languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from oncelog.errors import InvalidOptionError, ensure
from oncelog.limits import MAX_RECORD_BYTES
from oncelog.log.records import HEADER_TYPE, RECORD_SCHEMA, Numbers, offsets_of, valid_of

FORMAT_VERSION = 1
"""Version of the Avro record below. A change of the layout increases it, and keeps readers for all older versions."""

CODECS = ("null", "lz4", "zstd")

ZSTD_LEVEL = 1
"""Level 3 writes at half the speed for the same size. Levels below 1 read faster, but take half as much space again."""

MAX_BUFFER_BYTES = 4 * MAX_RECORD_BYTES
"""Writers stay below this: a batch has at most one and a half times its target size and one record more, and the
target is at most a record's maximum. Bounds what a reader allocates for a damaged size, and keeps offsets far below 32
bits."""

MAX_ENTRIES = 2**24
"""Records or headers in a batch. Writers stay far below, since each one adds some bytes to the size at which a batch is
cut. Bounds what a reader allocates for a damaged count."""

Field = dict[str, Any]
"""An Avro record in fastavro's form."""


# Avro defines a named type at its first use, and refers to it by name afterwards.
_BUFFER = {
    "type": "record",
    "name": "Buffer",
    "doc": "Bytes [position, position + length) of the body; compressed, unless length is size already.",
    "fields": [
        {"name": "position", "type": "long"},
        {"name": "length", "type": "long"},
        {"name": "size", "type": "long", "doc": "Bytes after decompression."},
    ],
}
_BINARY = {
    "type": "record",
    "name": "Binary",
    "doc": "A column of byte strings.",
    "fields": [
        {"name": "validity", "type": ["null", "Buffer"], "doc": "Bitmap, lowest bit first; null: nothing is null."},
        {"name": "lengths", "type": ["null", "Buffer"], "doc": "Integers; null: all are equally long."},
        {"name": "values", "type": "Buffer", "doc": "The byte strings, one after another."},
    ],
}
_HEADERS = {
    "type": "record",
    "name": "Headers",
    "doc": "A column of lists of headers.",
    "fields": [
        {"name": "validity", "type": ["null", "Buffer"], "doc": "As in Binary."},
        {"name": "lengths", "type": "Buffer", "doc": "Integers: headers of each record."},
        {"name": "keys", "type": "Binary", "doc": "UTF-8 text, of all headers one after another."},
        {"name": "values", "type": ["null", "Binary"], "doc": "Null: every header's value is null."},
    ],
}
BATCH_SCHEMA: Field = {
    "type": "record",
    "name": "RecordBatch",
    "namespace": "oncelog",
    "doc": "Records of one partition by columns. Integers: unsigned, little-endian, of size / count bytes each.",
    "fields": [
        {"name": "version", "type": "int", "doc": "Of this layout; always the first field."},
        {"name": "count", "type": "int", "doc": "Records; at least 1."},
        {"name": "min_timestamp_ms", "type": "long"},
        {"name": "max_timestamp_ms", "type": "long"},
        {"name": "compression", "type": {"type": "enum", "name": "Compression", "symbols": list(CODECS)}},
        {"name": "timestamps", "type": ["null", _BUFFER], "doc": "Integers, beyond the lowest; null: all equal it."},
        {"name": "key", "type": ["null", _BINARY], "doc": "Null: every key is null."},
        {"name": "value", "type": ["null", "Binary"], "doc": "Null: every value is null."},
        {"name": "headers", "type": ["null", _HEADERS], "doc": "Null: no record has headers."},
        {"name": "body", "type": "bytes", "doc": "Buffers, one after another; always the last field."},
    ],
}


def check_codec(name: str) -> None:
    """Raise an InvalidOptionError unless `name` is one of `CODECS`."""
    if name not in CODECS:
        raise InvalidOptionError("unknown codec", codec=name, known=CODECS)


def _codec(name: str) -> pa.Codec | None:
    return None if name == "null" else pa.Codec(name, ZSTD_LEVEL if name == "zstd" else None)


class _BodyWriter:
    """Collects the buffers of a body."""

    def __init__(self, codec: str) -> None:
        self.buffers: list[pa.Buffer] = []
        self._codec = _codec(codec)
        self._position = 0

    def add(self, raw: Any) -> Field:
        """Append a buffer. If compression does not make it smaller, it is stored as it is, and readers need no copy."""
        buffer = raw if isinstance(raw, pa.Buffer) else pa.py_buffer(raw)
        ensure(buffer.size <= MAX_BUFFER_BYTES, "a reader takes what a writer writes", size=buffer.size)
        stored = self._compressed(buffer)
        self.buffers.append(stored)
        place = {"position": self._position, "length": stored.size, "size": buffer.size}
        self._position += stored.size
        return place

    def _compressed(self, buffer: pa.Buffer) -> pa.Buffer:
        if self._codec is None or buffer.size == 0:
            return buffer
        compressed = self._codec.compress(buffer)
        if compressed.size >= buffer.size:
            return buffer
        # pyarrow shrinks the buffer after compression, but a view of it still has the old length. A slice has the right
        # one.
        return compressed.slice(0, compressed.size)

    def add_integers(self, numbers: Numbers) -> Field:
        """Append integers of 0 or more, each in the fewest bytes that hold the largest one."""
        narrow = np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<")
        return self.add(numbers.astype(narrow))


class _BodyReader:
    """Reads buffers from a body. Raises a ValueError, or a codec's OSError, if it is damaged."""

    def __init__(self, body: pa.Buffer, codec: str) -> None:
        self._body = body
        self._codec = _codec(codec)

    def get(self, place: Field) -> pa.Buffer:
        """The buffer at `place`, decompressed; without a copy if it was not compressed."""
        position, length, size = place["position"], place["length"], place["size"]
        if position < 0 or length < 0 or position + length > self._body.size:
            raise ValueError(f"a buffer at {position} of {length} bytes in a body of {self._body.size}")
        stored = self._body.slice(position, length)
        if length == size:
            return stored
        if self._codec is None or not 0 <= size <= MAX_BUFFER_BYTES:
            raise ValueError(f"a buffer of {length} bytes that cannot hold {size}")
        if self._codec.name != "lz4":
            return self._codec.decompress(stored, size)
        # If lz4 data is shorter than `size`, pyarrow's codec fills the rest with whatever is in memory. A stream does
        # not, and takes as long.
        with pa.CompressedInputStream(pa.BufferReader(stored), self._codec.name) as stream:
            raw = stream.read_buffer(size)
            if raw.size != size or stream.read(1):
                raise ValueError(f"{raw.size} bytes or more that should be {size}")
        return raw

    def get_integers(self, place: Field, count: int) -> Numbers:
        """The integers at `place`; their width is the buffer's size divided by `count`."""
        raw = self.get(place)
        width = raw.size // count if count else 1
        if raw.size != width * count or width not in (1, 2, 4, 8):
            raise ValueError(f"{raw.size} bytes for {count} integers")
        return np.frombuffer(raw, np.dtype(f"<u{width}"), count=count)


# Encoding -------------------------------------------------------------------------------------------------------------


def encode(records: pa.RecordBatch, codec: str) -> tuple[Field, list[pa.Buffer]]:
    """Convert a record batch of `RECORD_SCHEMA`, not empty, into a record of `BATCH_SCHEMA`.

    Returns:
        the fields before the body, and the body in parts.
    """
    ensure(records.schema.equals(RECORD_SCHEMA), "a batch is normalised before it is written", found=records.schema)
    ensure(1 <= records.num_rows <= MAX_ENTRIES, "a block holds some records", count=records.num_rows)
    key, value, headers, stamps = records.columns
    timestamps = stamps.to_numpy()
    lowest, highest = int(timestamps.min()), int(timestamps.max())
    body = _BodyWriter(codec)
    fields = {
        "version": FORMAT_VERSION,
        "count": records.num_rows,
        "min_timestamp_ms": lowest,
        "max_timestamp_ms": highest,
        "compression": codec,
        "timestamps": None if lowest == highest else body.add_integers(timestamps - lowest),
        "key": _encode_binary(key, body),
        "value": _encode_binary(value, body),
        "headers": _encode_headers(headers, body),
    }
    return fields, body.buffers


def _encode_binary(array: pa.Array, body: _BodyWriter) -> Field | None:
    if array.null_count == len(array):
        return None
    offsets = offsets_of(array)
    lengths = offsets[1:] - offsets[:-1]
    values = array.buffers()[2]
    used = values.slice(offsets[0], offsets[-1] - offsets[0]) if values else b""
    return {
        "validity": _encode_validity(array, body),
        "lengths": None if lengths.min() == lengths.max() else body.add_integers(lengths),
        "values": body.add(used),
    }


def _encode_headers(array: pa.Array, body: _BodyWriter) -> Field | None:
    if array.null_count == len(array):
        return None
    offsets = offsets_of(array)
    keys, values = array.values.slice(offsets[0], offsets[-1] - offsets[0]).flatten()
    return {
        "validity": _encode_validity(array, body),
        "lengths": body.add_integers(np.diff(offsets)),
        "keys": _encode_binary(keys, body) or {"validity": None, "lengths": None, "values": body.add(b"")},
        "values": _encode_binary(values, body),
    }


def _encode_validity(array: pa.Array, body: _BodyWriter) -> Field | None:
    return body.add(np.packbits(valid_of(array), bitorder="little")) if array.null_count else None


# Decoding -------------------------------------------------------------------------------------------------------------


def decode(batch: Field, body: pa.Buffer, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Convert a record of `BATCH_SCHEMA` into a record batch, or into only some of its columns.

    Args:
        batch: the fields before the body.
        body: the records refer to it where it is not compressed.
        columns: names in `RECORD_SCHEMA`, in the wanted order.

    Raises:
        ValueError, OSError: the record is damaged; a codec raises the OSError.
    """
    schema = RECORD_SCHEMA if columns is None else _schema_of(tuple(columns))
    count = batch["count"]
    if not 1 <= count <= MAX_ENTRIES:
        raise ValueError(f"a batch of {count} records")
    source = _BodyReader(body, batch["compression"])
    return pa.RecordBatch.from_arrays([_decode_column(name, batch, source) for name in schema.names], schema=schema)


@cache
def _schema_of(columns: tuple[str, ...]) -> pa.Schema:
    ensure(set(columns) <= set(RECORD_SCHEMA.names), "only columns of a record are read", asked=columns)
    return pa.schema([RECORD_SCHEMA.field(name) for name in columns])


def _decode_column(name: str, batch: Field, body: _BodyReader) -> pa.Array:
    count = batch["count"]
    if name == "timestamp_ms":
        return _decode_timestamps(batch, body)
    if batch[name] is None:
        return pa.nulls(count, RECORD_SCHEMA.field(name).type)
    if name == "headers":
        return _decode_headers(batch[name], count, body)
    return _decode_binary(batch[name], count, pa.binary(), body)


def _decode_timestamps(batch: Field, body: _BodyReader) -> pa.Array:
    lowest, count = batch["min_timestamp_ms"], batch["count"]
    if batch["timestamps"] is None:
        return pa.array(np.full(count, lowest, np.int64))
    return pa.array(body.get_integers(batch["timestamps"], count).astype(np.int64) + lowest)


def _decode_binary(field: Field, count: int, kind: pa.DataType, body: _BodyReader) -> pa.Array:
    values = body.get(field["values"])
    if field["lengths"] is not None:
        offsets = _offsets(body.get_integers(field["lengths"], count))
    else:
        offsets = np.arange(count + 1, dtype=np.int32) * (values.size // max(count, 1))
    if offsets[-1] != values.size:
        raise ValueError(f"{values.size} bytes for entries of {offsets[-1]}")
    return pa.Array.from_buffers(kind, count, [_validity(field, count, body), pa.py_buffer(offsets), values])


def _decode_headers(field: Field, count: int, body: _BodyReader) -> pa.Array:
    offsets = _offsets(body.get_integers(field["lengths"], count))
    entries = int(offsets[-1])
    if entries > MAX_ENTRIES:
        raise ValueError(f"a column of {entries} headers")
    keys = _decode_binary(field["keys"], entries, pa.string(), body)
    if field["values"] is None:
        values = pa.nulls(entries, pa.binary())
    else:
        values = _decode_binary(field["values"], entries, pa.binary(), body)
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    buffers = [_validity(field, count, body), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(RECORD_SCHEMA.field("headers").type, count, buffers, children=[headers])


def _validity(field: Field, count: int, body: _BodyReader) -> pa.Buffer | None:
    if field["validity"] is None:
        return None
    bitmap = body.get(field["validity"])
    if bitmap.size != (count + 7) // 8:
        raise ValueError(f"a bitmap of {bitmap.size} bytes for {count} entries")
    return bitmap


def _offsets(lengths: Numbers) -> Numbers:
    """The offsets at which entries of these lengths begin, and at which the last one ends."""
    if lengths.itemsize > 4:
        raise ValueError("lengths of 64 bits")
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > MAX_BUFFER_BYTES:
        raise ValueError(f"lengths add up to {offsets[-1]} bytes")
    return offsets.astype(np.int32)
