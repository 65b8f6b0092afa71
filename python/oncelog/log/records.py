"""Records as Arrow columns: the schema, the conversion of users' batches, sizes, and splitting.

All other modules rely on the result of `normalise`: it has `RECORD_SCHEMA`, no record over the limit, and no bytes
hidden under a null. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from oncelog import limits
from oncelog.errors import InvalidRecordError, RecordTooLargeError

Numbers = npt.NDArray[Any]

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE)),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
    ]
)
"""A null value is a tombstone. Timestamps are integers, like all times in oncelog: milliseconds since 1970, UTC."""

RECORD_OVERHEAD_BYTES = 16
"""What a record takes in memory in addition to its bytes: its timestamp, and the offsets of its key and value."""

HEADER_OVERHEAD_BYTES = 8
"""What a header takes in memory in addition to its bytes: the offsets of its key and value."""

_WANTED = {
    "key": "binary or string",
    "value": "binary or string",
    "headers": "list<struct<key: string, value: binary>>",
    "timestamp_ms": "int64 of milliseconds, or a timestamp with a time zone",
}


def normalise(batch: pa.RecordBatch | pa.Table, default_timestamp_ms: int) -> pa.RecordBatch:
    """Convert a user's columns into a record batch of `RECORD_SCHEMA`.

    Args:
        batch: column `value`, and optionally `key`, `headers` and `timestamp_ms`. All Arrow layouts of binary and
            string are accepted: large, view, fixed size, dictionary. Headers may be a map. Chunks are combined.
        default_timestamp_ms: for rows without a timestamp.

    Raises:
        InvalidRecordError: a column is missing or unknown, or has the wrong type; the error names it.
        RecordTooLargeError: key, value and headers of one record exceed `limits.MAX_RECORD_BYTES`.
    """
    _check_columns(batch.schema)
    columns = [_column(batch, field) for field in RECORD_SCHEMA]
    columns[3] = _timestamps(columns[3], default_timestamp_ms)
    _check_headers(columns[2])
    records = pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)
    _check_sizes(records)
    return records


def record_sizes(records: pa.RecordBatch) -> Numbers:
    """Bytes of key, value and headers of each record. Each header also counts `HEADER_OVERHEAD_BYTES`."""
    key, value, headers, _ = records.columns
    return _lengths(key) + _lengths(value) + _header_sizes(headers)


def concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Copy record batches into one. A copy of a single slice does not keep the slice's whole batch in memory."""
    columns = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(len(RECORD_SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def offsets_of(array: pa.Array) -> Numbers:
    """The offsets at which the entries of a binary, string or list array begin, and at which the last one ends."""
    if len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, count=len(array) + 1, offset=4 * array.offset)


def valid_of(array: pa.Array) -> Numbers:
    """Which entries are not null."""
    valid: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def split_rows(rows: pa.RecordBatch, numbers: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split rows by a number, keeping their order: with one stable sort and one copy, without a loop over rows.

    Args:
        rows: any record batch.
        numbers: one per row, such as its partition.

    Yields:
        (number, its rows), by ascending number. A batch in which all numbers are equal is not copied.
    """
    if rows.num_rows == 0:
        return
    if numbers.min() == numbers.max():
        yield int(numbers[0]), rows
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered)) + 1
    together = rows.take(pa.array(order))
    for start, end in zip([0, *starts], [*starts, len(ordered)], strict=True):
        yield int(ordered[start]), together.slice(start, end - start)


# Columns --------------------------------------------------------------------------------------------------------------


def _check_columns(schema: pa.Schema) -> None:
    if "value" not in schema.names:
        raise InvalidRecordError("a record batch has no value column", column="value", found=schema.names)
    for name in schema.names:
        if name not in RECORD_SCHEMA.names:
            raise InvalidRecordError("a record has no such column", column=name, known=RECORD_SCHEMA.names)
        if schema.names.count(name) > 1:
            raise InvalidRecordError("a record batch has a column twice", column=name)


def _column(batch: pa.RecordBatch | pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    if not _is_welcome(field.name, column.type):
        raise _wrong_type(field.name, column.type)
    try:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if field.name == "timestamp_ms" and pt.is_timestamp(array.type):
            array = array.cast(pa.timestamp("ms", "UTC"), safe=False)  # truncates to milliseconds
        return _without_hidden_bytes(array.cast(field.type))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _wrong_type(field.name, column.type) from error
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(
            "a column cannot be converted; fix the stated reason, or send fewer rows at once",
            column=field.name,
            found=str(column.type),
            wanted=_WANTED[field.name],
            reason=str(error),
        ) from error


def _wrong_type(name: str, found: pa.DataType) -> InvalidRecordError:
    return InvalidRecordError("a column has the wrong type", column=name, found=str(found), wanted=_WANTED[name])


def _is_welcome(name: str, found: pa.DataType) -> bool:
    if name == "headers":
        return pt.is_null(found) or _is_header_list(found)
    if name == "timestamp_ms":
        return pt.is_null(found) or pt.is_integer(found) or (pt.is_timestamp(found) and found.tz is not None)
    return _is_bytes(found)


def _is_header_list(found: pa.DataType) -> bool:
    if pt.is_map(found):
        return _is_string(found.key_type) and _is_bytes(found.item_type)
    # List views are not accepted: pyarrow 26 casts them to lists with too few offsets.
    if not (pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found)):
        return False
    entry = found.value_type
    if not pt.is_struct(entry) or [field.name for field in entry] != ["key", "value"]:
        return False
    return _is_string(entry.field("key").type) and _is_bytes(entry.field("value").type)


_BYTES: tuple[Callable[[pa.DataType], bool], ...] = (
    pt.is_null,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_binary_view,
    pt.is_fixed_size_binary,
)


def _is_bytes(found: pa.DataType) -> bool:
    if pt.is_dictionary(found):
        return _is_bytes(found.value_type)
    return _is_string(found) or any(is_kind(found) for is_kind in _BYTES)


def _is_string(found: pa.DataType) -> bool:
    if pt.is_dictionary(found):
        return _is_string(found.value_type)
    return any(is_kind(found) for is_kind in (pt.is_string, pt.is_large_string, pt.is_string_view))


def _without_hidden_bytes(array: pa.Array) -> pa.Array:
    """The same values, without bytes under nulls. Arrow allows them, but masked bytes must not be stored."""
    if pt.is_integer(array.type) or len(array) == 0:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), array.type)
    hides = _hides_bytes(array) or (pt.is_list(array.type) and _hides_bytes(_header_columns(array)[1]))
    return array.take(pa.array(np.arange(len(array)))) if hides else array


def _hides_bytes(array: pa.Array) -> bool:
    return bool(array.null_count) and bool(np.diff(offsets_of(array))[~valid_of(array)].any())


# Rows -----------------------------------------------------------------------------------------------------------------


def _timestamps(array: pa.Array, default_timestamp_ms: int) -> pa.Array:
    filled = array.fill_null(default_timestamp_ms)
    bounds = pc.min_max(filled)
    for found in (bounds["min"].as_py(), bounds["max"].as_py()):
        if found is not None and not 0 <= found <= limits.MAX_TIMESTAMP_MS:
            raise InvalidRecordError(
                "a timestamp is before 1970, or later than Spark can read",
                column="timestamp_ms",
                row=pc.index(filled, found).as_py(),
                found=found,
                maximum=limits.MAX_TIMESTAMP_MS,
            )
    return filled


def _check_headers(headers: pa.Array) -> None:
    if headers.null_count == len(headers):
        return
    entries = headers.flatten()
    keys = pc.struct_field(entries, "key")  # also null if the whole header is null
    if keys.null_count:
        entry = int(np.argmin(valid_of(keys)))
        starts = offsets_of(headers)
        row = int(np.searchsorted(starts - starts[0], entry, side="right")) - 1
        raise InvalidRecordError("a header has no key", column="headers", row=row)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRecordError("a header's key is not valid text", column="headers", reason=str(error)) from error


def _check_sizes(records: pa.RecordBatch) -> None:
    if records.nbytes <= limits.MAX_RECORD_BYTES:
        return
    sizes = record_sizes(records)
    row = int(sizes.argmax())
    if sizes[row] > limits.MAX_RECORD_BYTES:
        raise RecordTooLargeError(
            "a record is too large; no record of its batch was sent",
            row=row,
            size_bytes=int(sizes[row]),
            maximum=limits.MAX_RECORD_BYTES,
        )


def _lengths(array: pa.Array) -> Numbers:
    return np.diff(offsets_of(array)).astype(np.int64)


def _header_columns(headers: pa.Array) -> list[pa.Array]:
    """Keys and values of all headers, one after another."""
    starts = offsets_of(headers)
    columns: list[pa.Array] = headers.values.slice(starts[0], starts[-1] - starts[0]).flatten()
    return columns


def _header_sizes(headers: pa.Array) -> Numbers:
    if headers.null_count == len(headers):
        return np.zeros(len(headers), np.int64)
    offsets = offsets_of(headers)
    key, value = _header_columns(headers)
    ends = np.concatenate([[0], np.cumsum(_lengths(key) + _lengths(value) + HEADER_OVERHEAD_BYTES)])
    sizes: Numbers = np.diff(ends[offsets - offsets[0]])
    return sizes
