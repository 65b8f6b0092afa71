"""A data source that counts, and writes down every call that Spark makes, so that tests can tell how Spark behaves."""

# ruff: noqa: N802, N803 - Spark's names

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

Call = dict[str, Any]


class Journal:
    """Calls, one JSON object a line, appended by several processes."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def note(self, call: str, **details: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"call": call, **details}) + "\n")

    def calls(self, *names: str) -> list[Call]:
        """The calls so far, those of `names` only if any are given."""
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return [call for call in map(json.loads, lines) if not names or call["call"] in names]

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


class JournalSource(DataSource):
    """Options: `journal`, a file; `until`, where the stream ends (a row and a batch per number)."""

    @classmethod
    def name(cls) -> str:
        return "journal"

    def _journal(self) -> Journal:
        return Journal(self.options["journal"])

    def schema(self) -> str:
        return "number long, text string not null"

    def reader(self, schema: StructType) -> DataSourceReader:
        self._journal().note("reader", options=dict(self.options), columns=schema.simpleString())
        return BatchCounter(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._journal().note("streamReader", options=dict(self.options), columns=schema.simpleString())
        return Counter(self._journal(), int(self.options["until"]), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        self._journal().note("streamWriter", options=dict(self.options), overwrite=overwrite)
        return JournalWriter(self._journal())


def _rows(schema: StructType, first: int, end: int) -> Iterator[pa.RecordBatch]:
    numbers = range(first, end)
    columns = {
        "number": pa.array(numbers, pa.int64()),
        "text": pa.array(map(str, numbers), pa.string()),
    }
    fields = [pa.field(field.name, columns[field.name].type, nullable=field.nullable) for field in schema.fields]
    yield pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=pa.schema(fields))


class BatchCounter(DataSourceReader):
    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(self._schema, 0, 3)


class Counter(DataSourceStreamReader):
    def __init__(self, journal: Journal, until: int, schema: StructType) -> None:
        self._journal = journal
        self._until = until
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:
        self._journal.note("initialOffset")
        return {"next": 0}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        if start is None:  # before Spark 4.2
            start = {"next": max((call["end"]["next"] for call in self._journal.calls("partitions")), default=0)}
        self._journal.note("latestOffset", start=start, limit=type(limit).__name__)
        return {"next": min(start["next"] + 1, self._until)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._journal.note("partitions", start=start, end=end)
        return [InputPartition((start["next"], end["next"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(self._schema, *partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        self._journal.note("commit", end=end)

    def stop(self) -> None:
        self._journal.note("stop")


class Written(WriterCommitMessage):
    def __init__(self, rows: int) -> None:
        self.rows = rows


class JournalWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[misc]
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = sum(batch.num_rows for batch in iterator)
        task = TaskContext.get()
        assert task is not None
        names = ("streaming.sql.batchId", "sql.streaming.queryId", "spark.jobGroup.id")
        self._journal.note("write", rows=rows, properties={name: task.getLocalProperty(name) for name in names})
        return Written(rows)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        rows = sum(message.rows for message in messages if isinstance(message, Written))
        self._journal.note("commitBatch", batch_id=batchId, rows=rows)
