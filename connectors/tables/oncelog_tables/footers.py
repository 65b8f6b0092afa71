"""What the footer of a parquet file says of its rows: how many, and the least and the greatest value of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from oncelog.spark.kit.spark_files import FoundFile

READERS = 8
"""Footers that are read at a time: each is a request or two to an object store."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is known of a column in a file.

    Attributes:
        least, greatest: of its values; None if there is none, or it is not known.
        nulls: how many rows have none; None if it is not known.
    """

    least: Any
    greatest: Any
    nulls: int | None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a file.

    Attributes:
        name: its path from the attempt's folder on.
        size: in bytes.
        columns: by their path in the schema; those within arrays and maps are left out.
        footer: all that the file says of itself.
    """

    name: str
    size: int
    rows: int
    columns: dict[tuple[str, ...], ColumnFacts] = field(repr=False)
    footer: pq.FileMetaData = field(repr=False)


def read_all(
    files: Sequence[FoundFile], opened: Callable[[str], IO[bytes]], wanted: Collection[str]
) -> list[FileFacts]:
    """Read the footers of files.

    Args:
        files: in the attempt's folder.
        opened: opens one by its name.
        wanted: top-level columns of which the facts are asked for.

    Raises:
        OSError: a file cannot be read.
    """
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda file: _read(file, opened, frozenset(wanted)), files))


def _read(file: FoundFile, opened: Callable[[str], IO[bytes]], wanted: frozenset[str]) -> FileFacts:
    with opened(file.name) as stream:
        footer = pq.read_metadata(stream)
    columns = {}
    for number, leaf in enumerate(_leaves(footer.schema.to_arrow_schema())):
        if leaf is not None and leaf[0] in wanted:
            chunks = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
            columns[leaf] = _of_chunks(chunks)
    return FileFacts(file.name, file.size, footer.num_rows, columns, footer)


def _leaves(fields: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...] | None]:
    """The paths of the columns of a file, in its order; None for what is within an array or a map."""
    for one in fields:
        if pa.types.is_struct(one.type):
            yield from _leaves(one.type.fields, (*above, one.name))
        elif pa.types.is_nested(one.type):
            inner = (one.type.field(number) for number in range(one.type.num_fields))
            yield from (None for _ in _leaves(inner))
        else:
            yield (*above, one.name)


def _of_chunks(chunks: Sequence[Any]) -> ColumnFacts:
    """The facts of a column, from the statistics of its chunks, which a writer may leave out."""
    if any(chunk is None for chunk in chunks):
        return ColumnFacts(None, None, None)
    nulls = sum(chunk.null_count for chunk in chunks) if all(chunk.has_null_count for chunk in chunks) else None
    with_values = [chunk for chunk in chunks if chunk.num_values]
    if not with_values or not all(chunk.has_min_max for chunk in with_values):
        return ColumnFacts(None, None, nulls)
    least, greatest = min(chunk.min for chunk in with_values), max(chunk.max for chunk in with_values)
    if isinstance(least, float):  # writers differ in whether NaN counts, which is the greatest value to Spark
        return ColumnFacts(None, None, nulls)
    return ColumnFacts(least, greatest, nulls)
