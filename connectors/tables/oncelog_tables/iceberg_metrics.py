"""What manifests of an Iceberg table say of the columns of a file: sizes, counts, and bounds by which readers skip it.

All of it comes from the file's footer. Parquet leaves the statistics of a part of a file out if its values are long:
what is not known of one part is not said of the file. A bound may be cut, but is never above the least value nor below
the greatest one. Floats have no bounds: writers differ in whether NaN counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector, compute_statistics_plan
from pyiceberg.schema import Schema

from oncelog.errors import UsageError

FieldPath = tuple[str, ...]

_ID: Final = b"PARQUET:field_id"
_BOUNDS: Final = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)
_FLOATS: Final = (types.FloatType, types.DoubleType)
_LAST: Final = 0x10FFFF
_BEFORE_SURROGATES: Final = 0xD7FF
_AFTER_SURROGATES: Final = 0xE000


@dataclass(slots=True)
class Metrics:
    """The fields of a `DataFile` that say what is in it; those about columns are by field id."""

    record_count: int
    split_offsets: list[int]
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


class MetricsPlan:
    """What a table wants to know of which column.

    Args:
        schema: of the table; what files have of other columns is left out.
        properties: of the table.
    """

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self._wanted = compute_statistics_plan(schema, dict(properties))
        self._by_name = dict(_of_table(schema.fields))

    def of_file(self, footer: pq.FileMetaData) -> Metrics:
        """The metrics of a file."""
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        metrics = Metrics(footer.num_rows, sorted(_start(group.column(0)) for group in groups))
        leaves = (one for one in _of_file(footer.schema.to_arrow_schema()) if one.is_leaf)
        for number, leaf in enumerate(leaves):
            field_id = self._by_name.get(leaf.path) if leaf.field_id is None else leaf.field_id
            if field_id in self._wanted:
                _add(metrics, self._wanted[field_id], [group.column(number) for group in groups])
        return metrics


def check_ids(footer: pq.FileMetaData, schema: Schema, table: str) -> None:
    """Refuse a file that has not the table's field ids.

    Raises:
        UsageError: see above.
    """
    wanted = dict(_of_table(schema.fields))
    for one in _of_file(footer.schema.to_arrow_schema()):
        if one.field_id != wanted.get(one.path):
            raise UsageError(
                "Spark's parquet writer did not write the table's field ids, by which readers find the columns in a "
                "file; use a Spark with its own parquet writer",
                table=table,
                column=".".join(one.path),
                field_id="none" if one.field_id is None else one.field_id,
                wanted=wanted.get(one.path, "none"),
            )


# Fields ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FileField:
    """A field of a file at any depth, under the names that Iceberg uses within lists and maps."""

    path: FieldPath
    field_id: int | None
    is_leaf: bool


def _of_file(fields: Iterable[pa.Field], above: FieldPath = ()) -> Iterator[_FileField]:
    for one in fields:
        path = (*above, one.name)
        inner = _within(one.type)
        found = (one.metadata or {}).get(_ID)
        yield _FileField(path, None if found is None else int(found), not inner)
        yield from _of_file(inner, path)


def _within(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind.fields)
    if pa.types.is_map(kind):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    return [kind.value_field.with_name("element")] if pa.types.is_list(kind) else []


def _of_table(fields: Iterable[types.NestedField], above: FieldPath = ()) -> Iterator[tuple[FieldPath, int]]:
    """The paths of all fields of a table, with their ids."""
    for one in fields:
        path = (*above, one.name)
        yield path, one.field_id
        yield from _of_table(_within_type(one.field_type), path)


def _within_type(kind: types.IcebergType) -> Sequence[types.NestedField]:
    if isinstance(kind, types.ListType):
        return [kind.element_field]
    if isinstance(kind, types.MapType):
        return [kind.key_field, kind.value_field]
    return kind.fields if isinstance(kind, types.StructType) else ()


# Metrics --------------------------------------------------------------------------------------------------------------


def _start(chunk: Any) -> int:
    """Where the first column of a part of the file begins."""
    pages = [chunk.data_page_offset]
    return int(min([*pages, chunk.dictionary_page_offset] if chunk.has_dictionary_page else pages))


def _add(metrics: Metrics, wanted: StatisticsCollector, chunks: Sequence[Any]) -> None:
    """Say of a column, from its chunks, what the table wants to know."""
    key = wanted.field_id
    metrics.column_sizes[key] = sum(chunk.total_compressed_size for chunk in chunks)
    if wanted.mode.type is MetricModeTypes.NONE:
        return
    metrics.value_counts[key] = sum(chunk.num_values for chunk in chunks)
    found = [chunk.statistics for chunk in chunks]
    if not all(one is not None and one.has_null_count for one in found):
        return
    metrics.null_value_counts[key] = sum(one.null_count for one in found)
    if wanted.mode.type in _BOUNDS and not isinstance(wanted.iceberg_type, _FLOATS):
        bounds = _bounds([one for one in found if one.num_values], wanted.iceberg_type, wanted.mode.length)
        for into, bound in zip((metrics.lower_bounds, metrics.upper_bounds), bounds, strict=True):
            if bound is not None:
                into[key] = bound


def _bounds(found: Sequence[Any], kind: types.PrimitiveType, length: int | None) -> tuple[bytes | None, bytes | None]:
    """The bounds of a column, as Iceberg writes single values; None where there is none."""
    if not found or not all(one.has_min_max for one in found):
        return None, None
    if isinstance(kind, types.DecimalType):
        numbers = [(_unscaled(one.min_raw), _unscaled(one.max_raw)) for one in found]
        return _shortest(min(low for low, _ in numbers)), _shortest(max(high for _, high in numbers))
    least, greatest = min(one.min_raw for one in found), max(one.max_raw for one in found)
    if isinstance(kind, types.StringType):
        return _text_bounds(least, greatest, length)
    if isinstance(kind, types.BinaryType):
        return least[:length], _above(greatest, length)
    return to_bytes(kind, least), to_bytes(kind, greatest)


def _unscaled(raw: int | bytes) -> int:
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw


def _shortest(number: int) -> bytes:
    """Two's complement in as few bytes as it takes."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _text_bounds(least: bytes, greatest: bytes, length: int | None) -> tuple[bytes | None, bytes | None]:
    try:
        low, high = least.decode()[:length], _text_above(greatest.decode(), length)
    except UnicodeDecodeError:
        return None, None
    return low.encode(), None if high is None else high.encode()


def _text_above(text: str, length: int | None) -> str | None:
    """A text of at most so many characters that is not less than this one; None if there is none."""
    if length is None or len(text) <= length:
        return text
    kept = text[:length].rstrip(chr(_LAST))
    if not kept:
        return None
    last = ord(kept[-1])
    return kept[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)


def _above(value: bytes, length: int | None) -> bytes | None:
    """Bytes, at most so many, that are not less than these; None if there are none."""
    if length is None or len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
