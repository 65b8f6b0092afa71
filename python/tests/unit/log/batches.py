"""Records as rows and as record batches, for tests of files and their content."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from oncelog.log import codec

Header = tuple[str, bytes | None]
Row = tuple[bytes | None, bytes | None, list[Header] | None, int]


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    keys, values, headers, timestamps = zip(*rows, strict=True) if rows else ((), (), (), ())
    structs = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    columns = [keys, values, structs, timestamps]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, codec.RECORD_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=codec.RECORD_SCHEMA)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    return [
        (
            row["key"],
            row["value"],
            row["headers"] and [(header["key"], header["value"]) for header in row["headers"]],
            row["timestamp_ms"],
        )
        for row in batch.to_pylist()
    ]


def values_batch(values: Sequence[bytes | None], timestamp_ms: int = 0) -> pa.RecordBatch:
    """Records of values alone."""
    return batch_of([(None, value, None, timestamp_ms) for value in values])


EVERYTHING: list[Row] = [
    (b"k1", b"text " * 100, [("trace", b"\x00\xff"), ("empty", b"")], 1_700_000_000_000),
    (None, b"", None, 1_700_000_000_007),
    (b"", None, [], 1_699_999_999_000),
    (b"k4", b"text " * 80, [("größe", None)], 1_700_000_070_000),
]
"""Nulls, empty strings and lists, text beyond ASCII, and something to compress."""
