"""Wrote the golden files of format version 1, once: `python -m tests.golden.write_v1`. It refuses to write them again.

A change of the layout gets a script, and golden files, of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from oncelog.log import codec
from oncelog.log.codec import Place
from oncelog.types import Block

FOLDER = Path(__file__).parent
SYNC_MARKER = bytes(range(16))

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]

TEXT = b"The quick brown fox jumps over the lazy dog. "
BATCHES: list[list[Row]] = [
    [  # everything at once: nulls, empty strings, lengths beyond a byte, several headers
        (b"k1", TEXT * 8, [("trace", b"\x00\xff"), ("empty", b"")], 1_700_000_000_000),
        (None, b"", None, 1_700_000_000_007),
        (b"", None, [], 1_699_999_999_000),
        (b"k4", TEXT, [("größe", None)], 1_700_000_070_000),
        (b"k5", bytes(300), None, 1_700_000_000_000),
    ],
    [
        (None, b"flight number %03d" % number, None, 1_700_000_000_000) for number in range(500)
    ],  # one length, one timestamp
    [(b"user-%d" % (number % 7), None, None, 1_700_000_000_000 + number) for number in range(20)],  # tombstones
    [(None, b"far", None, 0), (None, b"apart", None, 2**53)],
    [(b"k", b"v", [("only", None), ("keys", None)], 5)],
]
ROWS_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Example",
    "fields": [{"name": "file", "type": "string"}, {"name": "offset", "type": ["null", "long"]}],
}
ROWS: list[dict[str, Any]] = [{"file": f"data/{number:08d}-a.avro", "offset": number or None} for number in range(50)]


def record_batch(rows: list[Row]) -> pa.RecordBatch:
    keys, values, headers, timestamps = zip(*rows, strict=True)
    as_dicts = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip([keys, values, as_dicts, timestamps], codec.RECORD_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=codec.RECORD_SCHEMA)


def data_file(codec_name: str, name: str) -> tuple[bytes, list[Block]]:
    """A data file of all batches, and its blocks as an index has them."""
    data = codec.file_header(SYNC_MARKER)
    blocks = []
    for rows in BATCHES:
        parts, block = codec.encode_block(record_batch(rows), codec_name, SYNC_MARKER, Place(name, len(data)))
        blocks.append(block)
        data += b"".join(parts)
    return data, blocks


class _Bytes:
    """An output file in memory."""

    def __init__(self) -> None:
        self.data = b""

    @property
    def position(self) -> int:
        return len(self.data)

    def write(self, data: bytes | memoryview) -> None:
        self.data += data

    def finish(self) -> None: ...

    def discard(self) -> None: ...


def main() -> None:
    index = {}
    for codec_name in codec.CODECS:
        name = f"data-v1-{codec_name}.avro"
        data, blocks = data_file(codec_name, name)
        _write_once(name, data)
        index[name] = [asdict(block) for block in blocks]
    _write_once("data-v1.json", (json.dumps(index, indent=1) + "\n").encode())
    rows = _Bytes()
    codec.write_rows(rows, ROWS_SCHEMA, ROWS)
    _write_once("rows-v1.avro", rows.data)


def _write_once(name: str, data: bytes) -> None:
    with (FOLDER / name).open("xb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
