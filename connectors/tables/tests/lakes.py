"""Tables and drivers of these tests, and readers that share no code with the sink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable
from pyiceberg.utils.concurrent import ExecutorFactory
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import LedgerWorld, StoppedOnPurposeError
from oncelog.testing.value_contract import ValueWorld
from oncelog_tables.batch_sink import IcebergSink, TableTarget
from oncelog_tables.columns import WrittenColumn
from oncelog_tables.crash_points import TablesCrashPoint
from oncelog_tables.delta_tables import DeltaTables
from oncelog_tables.iceberg_tables import IcebergTables
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS, ICEBERG_LEDGERS

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLANNED,
    TablesCrashPoint.WRITTEN,
    TablesCrashPoint.DURABLE,
    TablesCrashPoint.PREPARED,
    CrashPoint.ROUND_DECIDE,
)
"""The points that a batch passes once it is planned, up to its decision."""

BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    TablesCrashPoint.COMMIT,
    TablesCrashPoint.COMMITTED,
    CrashPoint.SINK_DONE,
)
"""Those that it passes then."""


class ArrowJob:
    """Rows that are written without Spark: two files, each with every other row.

    Attributes:
        has_ids: whether the files have the field ids of an Iceberg table.
    """

    has_ids = True

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    @property
    def spark(self) -> SparkSession:
        return SparkSession.builder.getOrCreate()

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._rows.schema)

    def run(self, planned: Sequence[WrittenColumn], folder: str, partitioned_by: Mapping[str, str | None]) -> int:
        assert not partitioned_by
        path = Path(folder.removeprefix("file:"))
        path.mkdir(parents=True)
        rows = self._rows.select([column.source for column in planned])
        rows = rows.rename_columns([column.name for column in planned])
        metadata = [{"PARQUET:field_id": str(one.ids.own)} if one.ids and self.has_ids else None for one in planned]
        fields = zip(rows.schema, metadata, strict=True)
        rows = rows.cast(pa.schema([field.with_metadata(ids) for field, ids in fields]))
        for at in (0, 1):
            pq.write_table(rows.take(pa.array(range(at, len(rows), 2), pa.int64())), path / f"part-{at}.parquet")
        return len(rows)


class BrokenArrowJob(ArrowJob):
    """Fails behind its first file."""

    def run(self, planned: Sequence[WrittenColumn], folder: str, partitioned_by: Mapping[str, str | None]) -> int:
        super().run(planned, folder, partitioned_by)
        raise StoppedOnPurposeError("the job fails on purpose")


class DeltaWorld(LedgerWorld):
    """A Delta table, and drivers that write into it."""

    def __init__(
        self, folder: Path, schema: pa.Schema | None = None, key_columns: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(folder)
        self.key_columns = key_columns
        self.table = folder / "a table"
        self.schema = schema or pa.schema({"value": pa.string()})
        create_delta(self.table, self.schema, **settings)

    def target(self) -> TableTarget:
        return TableTarget(self.store, DELTA_LEDGERS, DeltaTables({}), str(self.table), self.key_columns)

    def job(self, values: Sequence[str]) -> ArrowJob:
        return ArrowJob(pa.table({"value": pa.array(values, pa.string())}))

    def broken_job(self) -> ArrowJob:
        return BrokenArrowJob(pa.table({"value": pa.array(["broken"])}))

    def visible(self) -> list[str]:
        return [str(row["value"]) for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        return delta_rows(self.table)

    def left(self) -> list[str]:
        return left_folders(self.table)


def create_delta(table: Path, schema: pa.Schema, **settings: Any) -> None:
    """Create an empty Delta table."""
    DeltaTable.create(str(table), schema, **settings)


def left_folders(table: Path) -> list[str]:
    """The folders of attempts whose files no snapshot names."""
    attempts = {path.name for path in (table / "oncelog").glob("*")}
    named = {unquote(action["add"]["path"]) for action in _delta_actions(table) if "add" in action}
    return sorted(attempts - {Path(file).parts[1] for file in named if file.startswith("oncelog/")})


def delta_files(table: Path) -> dict[str, dict[str, Any]]:
    """The actions `add` of the files of a table, by their paths, as Delta's protocol says to replay its log."""
    files: dict[str, dict[str, Any]] = {}
    for action in _delta_actions(table):
        if "add" in action:
            files[unquote(action["add"]["path"])] = action["add"]
        elif "remove" in action:
            files.pop(unquote(action["remove"]["path"]), None)
    return files


def _delta_actions(table: Path) -> Iterator[dict[str, Any]]:
    """The actions of a table's log; of a commit, those that remove files come first: their order means nothing."""
    log = table / "_delta_log"
    assert not (log / "_last_checkpoint").exists(), "this reader reads commits only"
    for commit in sorted(log.glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        yield from sorted(actions, key=lambda action: "remove" not in action)


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a table; values of columns that it is partitioned by are texts."""
    found: list[dict[str, Any]] = []
    for path, action in delta_files(table).items():
        rows = pq.ParquetFile(table / path).read().to_pylist()
        found += [{**row, **action["partitionValues"]} for row in rows]
    return found


class IcebergWorld(LedgerWorld):
    """An Iceberg table in a catalog of its own, and drivers that write into it."""

    def __init__(
        self, folder: Path, schema: pa.Schema | None = None, key_columns: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(folder)
        self.key_columns = key_columns
        self.catalog = catalog_in(folder)
        self.schema = schema or pa.schema({"value": pa.string()})
        self.table = "lake.a table"
        self._opened: list[IcebergTables] = []
        create_iceberg(self.catalog, self.table, self.schema, **settings)

    def target(self) -> TableTarget:
        self._opened.append(IcebergTables("lake", self.catalog))
        return TableTarget(self.store, ICEBERG_LEDGERS, self._opened[-1], self.table, self.key_columns)

    def job(self, values: Sequence[str]) -> ArrowJob:
        return ArrowJob(pa.table({"value": pa.array(values, pa.string())}))

    def broken_job(self) -> ArrowJob:
        return BrokenArrowJob(pa.table({"value": pa.array(["broken"])}))

    def loaded(self) -> IcebergTable:
        """The table, as pyiceberg finds it now."""
        with closing(load_catalog("lake", **self.catalog)) as catalog:
            return catalog.load_table(self.table)

    def visible(self) -> list[str]:
        return [str(row["value"]) for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        return iceberg_rows(self.loaded().metadata_location)

    def left(self) -> list[str]:
        """The folders of attempts whose files no snapshot names."""
        return left_iceberg_folders(self.loaded().metadata_location)

    def close(self) -> None:
        super().close()
        close_iceberg(*self._opened)


def close_iceberg(*opened: IcebergTables) -> None:
    """Close what pyiceberg keeps open for the life of a process."""
    for tables in opened:
        if tables._catalog is not None:
            tables._catalog.close()
    executor, ExecutorFactory._instance = ExecutorFactory._instance, None
    if executor is not None:
        executor.shutdown()


def catalog_in(folder: Path) -> dict[str, str]:
    """The properties of a catalog in an SQLite file, with the tables beside it."""
    (folder / "warehouse").mkdir(exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def close_sinks(sinks: Iterable[IcebergSink]) -> None:
    """The same for what sinks have opened."""
    tables = [getattr(sink._target, "tables", None) for sink in sinks]
    close_iceberg(*(found for found in tables if isinstance(found, IcebergTables)))


def create_iceberg(catalog: Mapping[str, str], table: str, schema: Any, **settings: Any) -> IcebergTable:
    """Create an empty Iceberg table."""
    with closing(load_catalog("lake", **catalog)) as loaded:
        loaded.create_namespace_if_not_exists(table.partition(".")[0])
        return loaded.create_table(table, schema, **settings)


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://").removeprefix("file:"))


class IcebergEntry(NamedTuple):
    """A file of a table, by a manifest of its current snapshot.

    Attributes:
        number: the sequence number of its rows, or deletes.
        spec: the id of its partitions' spec.
    """

    number: int
    spec: int
    file: dict[str, Any]


ROWS, EQUALITY_DELETES = 0, 2
"""The contents of files."""


def iceberg_entries(metadata_location: str) -> list[IcebergEntry]:
    """The files of a table's current snapshot, as Iceberg's specification says to read its metadata."""
    found = json.loads(local(metadata_location).read_text())
    current = next((one for one in found["snapshots"] if one["snapshot-id"] == found.get("current-snapshot-id")), None)
    entries: list[IcebergEntry] = []
    for manifest in _avro(current["manifest-list"]) if current else []:
        for entry in _avro(manifest["manifest_path"]):
            number = entry.get("sequence_number")
            inherited = manifest.get("sequence_number", 0) if number is None else number
            if entry["status"] != 2:
                entries.append(IcebergEntry(inherited, manifest["partition_spec_id"], entry["data_file"]))
    assert {entry.file.get("content", ROWS) for entry in entries} <= {ROWS, EQUALITY_DELETES}
    return entries


def iceberg_files(metadata_location: str, content: int = ROWS) -> list[dict[str, Any]]:
    """The files of a table's current snapshot with such a content."""
    entries = iceberg_entries(metadata_location)
    return [entry.file for entry in entries if entry.file.get("content", ROWS) == content]


def left_iceberg_folders(metadata_location: str) -> list[str]:
    """The folders of attempts whose files no snapshot names."""
    own = local(metadata_location).parents[1] / "oncelog"
    attempts = {path.name for path in own.glob("*")}
    named = (local(file["file_path"]) for file in iceberg_files(metadata_location))
    return sorted(attempts - {file.relative_to(own).parts[0] for file in named if file.is_relative_to(own)})


def iceberg_rows(metadata_location: str) -> list[dict[str, Any]]:
    """The rows of a table: without those that an equality delete of a larger sequence number takes out."""
    entries = iceberg_entries(metadata_location)
    deletes = [(entry, _deleted(entry.file)) for entry in entries if entry.file.get("content", ROWS) != ROWS]
    columns = _columns_by_id(metadata_location)
    found: list[dict[str, Any]] = []
    for entry in entries:
        if entry.file.get("content", ROWS) == ROWS:
            applied = [(one.file["equality_ids"], gone) for one, gone in deletes if _applies(one, entry)]
            rows = pq.ParquetFile(local(entry.file["file_path"])).read().to_pylist()
            found += [row for row in rows if not any(_key(row, ids, columns) in gone for ids, gone in applied)]
    return found


def _applies(delete: IcebergEntry, rows: IcebergEntry) -> bool:
    is_global = not delete.file["partition"]
    is_same = (delete.spec, delete.file["partition"]) == (rows.spec, rows.file["partition"])
    return delete.number > rows.number and (is_global or is_same)


def _deleted(file: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The keys in a file of equality deletes, whose columns are found by their ids."""
    table = pq.ParquetFile(local(file["file_path"])).read()
    ids = {int((field.metadata or {})[b"PARQUET:field_id"]): field.name for field in table.schema}
    return {tuple(row[ids[one]] for one in file["equality_ids"]) for row in table.to_pylist()}


def _key(row: dict[str, Any], ids: Sequence[int], columns: Mapping[int, str]) -> tuple[Any, ...]:
    return tuple(row[columns[one]] for one in ids)


def _columns_by_id(metadata_location: str) -> dict[int, str]:
    found = json.loads(local(metadata_location).read_text())
    (schema,) = [one for one in found["schemas"] if one["schema-id"] == found["current-schema-id"]]
    return {field["id"]: field["name"] for field in schema["fields"]}


def _avro(uri: str) -> list[dict[str, Any]]:
    with local(uri).open("rb") as file:
        return [cast("dict[str, Any]", record) for record in fastavro.reader(file)]


class IcebergValueWorld(ValueWorld, IcebergWorld):
    """An Iceberg table with one column of any type."""

    def create(self, column: str, type_: str) -> bool:
        ddl = f"c {type_.replace('tinyint', 'int').replace('smallint', 'int')}"
        (field,) = cast("StructType", StructType.fromDDL(ddl)).fields
        with closing(load_catalog("lake", **self.catalog)) as catalog:
            catalog.drop_table(self.table)
        create_iceberg(
            self.catalog, self.table, pa.schema([pa.field(column, to_arrow_type(field.dataType, timezone="UTC"))])
        )
        return True

    def rows_job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)

    def job(self, values: Sequence[str]) -> ArrowJob:
        return IcebergWorld.job(self, values)

    def visible(self) -> list[str]:
        return IcebergWorld.visible(self)

    def read(self, column: str) -> list[Any]:
        return [dict(row[column]) if _is_map(row[column]) else row[column] for row in self.rows()]


def _is_map(value: Any) -> bool:
    """Whether pyarrow made a list of pairs of it."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple)
