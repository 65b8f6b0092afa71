"""What another program sees of the outputs. Both readers return, with each look, what is visible and was not before.

A look at the topic is one plan of a consumer; a look at the folder is one listing of its files.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
from pyarrow import json, parquet

from flights.folders import DELAYED, Folders

ROWS = pa.schema(
    [
        ("row", pa.int64()),
        ("flight", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("dep_delay", pa.int32()),
        ("batch", pa.int64()),
        ("partition", pa.int32()),
    ]
)
"""Late departures as they are read back: the flight, the batch that wrote it, the partition whose order it keeps."""

EVERYTHING = 10_000_000
"""More records than there are: one poll returns the whole plan."""


class OutputReader(Protocol):
    """Reads an output from its beginning, look by look."""

    def look(self) -> pa.Table:
        """What is visible now and was not before, columns `ROWS`, in reading order."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TopicReader:
    """A read_committed consumer of the topic `delayed`."""

    def __init__(self, folders: Folders) -> None:
        self._log = folders.open_log()
        self._consumer = self._log.consumer(isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.subscribe([DELAYED])

    def look(self) -> pa.Table:
        batches = self._consumer.poll_batches(max_records=EVERYTHING)
        return pa.concat_tables([ROWS.empty_table(), *(_parse(b.records["value"], b.partition) for b in batches)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()
        self._log.close()


class FolderReader:
    """A reader of the parquet files in a folder, in the order in which they were written."""

    def __init__(self, folders: Folders) -> None:
        self._folder = folders.parquet
        self._known: set[Path] = set()

    def look(self) -> pa.Table:
        new = sorted(set(self._folder.glob("part-*.parquet")) - self._known, key=_time_and_name)
        self._known.update(new)
        tables = [parquet.ParquetFile(file).read(columns=ROWS.names).select(ROWS.names).cast(ROWS) for file in new]
        return pa.concat_tables([ROWS.empty_table(), *tables])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._known.clear()


def _parse(values: pa.Array, partition: int) -> pa.Table:
    """The JSON values of consecutive records of one partition."""
    lines = io.BytesIO(b"\n".join(values.to_pylist()))
    parsed = json.read_json(lines, parse_options=json.ParseOptions(explicit_schema=ROWS.remove(6)))
    numbers = pa.repeat(pa.scalar(partition, pa.int32()), parsed.num_rows)
    return parsed.append_column("partition", numbers).select(ROWS.names)


def _time_and_name(file: Path) -> tuple[int, str]:
    return file.stat().st_mtime_ns, file.name
