"""Iceberg tables, through pyiceberg: a catalog's metadata is read and committed to here, and no rows.

A commit adds a snapshot with the files of a batch, and sets a property of the table: the newest batch of this sink.
Both are in one new version of the metadata, so the table has the batch if and only if it says so. Snapshots expire, and
with them all that their summaries say; a property stays.

Two drivers may carry the same decision out at once. Each has looked for the property in the version from which it makes
its snapshot, and the catalog takes a snapshot only if the branch still ends where it ended in that version. So one of
two is refused, and finds the batch at its next look. pyiceberg by itself would add a snapshot that was refused to the
newer version, without that look: it is told not to.

Files are added as `Table.add_files` does it: they have no field ids, and the table's name mapping, which follows the
renaming of columns, says which column is which. Those of the keys of an upsert have them: readers of equality deletes
do not ask the name mapping.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any, Final, cast

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table as CatalogTable
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.typedef import Record

from oncelog.errors import OncelogError, UsageError
from oncelog_tables import iceberg_deletes, iceberg_types, keys, partitions
from oncelog_tables.columns import TableColumn
from oncelog_tables.decisions import Decided
from oncelog_tables.errors import TableUnavailableError
from oncelog_tables.footers import FileFacts
from oncelog_tables.keys import KeyColumn

BATCHES: Final = "oncelog.batch."
"""What the properties begin with by which a table knows its newest batches."""

VERSIONS: Final = (1, 2)
"""Of the format."""


class IcebergTables:
    """The tables of a catalog; see `Tables`.

    Args:
        catalog: its name, as in pyiceberg's own configuration.
        properties: of the catalog, such as credentials.
    """

    def __init__(self, catalog: str, properties: Mapping[str, str]) -> None:
        self._name = catalog
        self._properties = dict(properties)
        self._catalog: Catalog | None = None

    def open(self, name: str, key_columns: Sequence[str] = ()) -> OpenIcebergTable:
        """The table of this name.

        Raises:
            UsageError: there is none, or the sink cannot write into it, or not replace its rows by these columns.
            TableUnavailableError: not now.
        """
        with _failing(name):
            if self._catalog is None:
                self._catalog = load_catalog(self._name, **self._properties)
            return OpenIcebergTable(name, self._catalog.load_table(name), key_columns)


class OpenIcebergTable:
    """An Iceberg table, as it was when it was opened; see `Table`."""

    adds_files: Final = True

    def __init__(self, name: str, table: CatalogTable, key_columns: Sequence[str]) -> None:
        self.name = name
        self._table = table
        metadata = table.metadata
        self.id = str(metadata.table_uuid)
        self._location = table.location().rstrip("/")
        self.root = f"file://{self._location}" if self._location.startswith("/") else self._location
        if metadata.format_version not in VERSIONS:
            raise UsageError(
                "the sink does not know this version of Iceberg's format", table=name, version=metadata.format_version
            )
        if "encryption.key-id" in metadata.properties:
            raise UsageError("the sink cannot write into an encrypted table", table=name)
        self._folders = iceberg_types.folders(name, table.schema(), table.spec())
        self.columns: Sequence[TableColumn] = iceberg_types.columns(name, table.schema())
        self._check_name_mapping()
        ids = {field.name: field.field_id for field in table.schema().fields}
        self.keys: Sequence[KeyColumn] = [
            replace(key, field_id=ids[key.name]) for key in keys.find(key_columns, name, self.columns)
        ]
        if self.keys:
            self._check_deletes()
        of_keys = [[key.field_id for key in self.keys]] if self.keys else []
        self.layout = json.dumps([metadata.default_spec_id, self._location, *of_keys])

    @property
    def partitioned_by(self) -> Mapping[str, str | None]:
        return {folder.name: folder.value for folder in self._folders}

    def last_batch(self, app_id: str) -> int | None:
        found = self._table.metadata.properties.get(BATCHES + app_id)
        return None if found is None else int(found)

    def opened(self, path: str) -> IO[bytes]:
        return cast("IO[bytes]", self._table.io.new_input(f"{self._location}/{path}").open())

    def commit(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> str | None:
        metadata = self._table.metadata
        once = {**metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        self._table.metadata = metadata.model_copy(update={"properties": once})  # what this process knows of it
        said = {"oncelog.app-id": decided.app_id, "oncelog.batch-id": str(decided.batch_id)}
        properties = {BATCHES + decided.app_id: str(decided.batch_id)}
        if metadata.name_mapping() is None:
            properties[TableProperties.DEFAULT_NAME_MAPPING] = metadata.schema().name_mapping.model_dump_json()
        try:
            with _failing(self.name):
                transaction = self._table.transaction()
                transaction.set_properties(properties)
                with self._snapshot(transaction, said) as snapshot:
                    for file in files:
                        added = self._added(f"{self._location}/{folder}/{file.name}", file)
                        if added.content is DataFileContent.DATA:
                            snapshot.append_data_file(added)
                        else:
                            snapshot.append_delete_file(added)
                transaction.commit_transaction()
        except CommitFailedException as refused:
            return _line(refused)
        return None

    def _snapshot(self, transaction: Transaction, said: dict[str, str]) -> Any:
        if self.keys:
            return iceberg_deletes.ReplacingRows(transaction, self._table.io, said)
        return transaction.update_snapshot(snapshot_properties=said).fast_append()

    def _added(self, path: str, file: FileFacts) -> DataFile:
        metadata, schema = self._table.metadata, self._table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.footer,
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        is_of_keys = keys.is_of_keys(file.name)
        return DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES if is_of_keys else DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=self._partition(file),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=[key.field_id for key in self.keys] if is_of_keys else None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _partition(self, file: FileFacts) -> Record:
        values = partitions.values_of(file.name.removeprefix(keys.FOLDER))
        return Record(*(folder.read(values[folder.name]) for folder in self._folders))

    def _check_deletes(self) -> None:
        """Refuse a table in which an equality delete does not take out each older row of its key.

        Raises:
            UsageError: see above.
        """
        metadata, spec = self._table.metadata, self._table.spec()
        ids = {key.field_id for key in self.keys}
        sources = [metadata.schema().find_field(field.source_id) for field in spec.fields]
        others = [source.name for source in sources if source.field_id not in ids]
        snapshot = metadata.current_snapshot()
        about: dict[str, Any] = {"table": self.name, "keyColumns": [key.name for key in self.keys]}
        if metadata.format_version < 2:
            raise UsageError(
                "the sink cannot replace rows of this Iceberg table: version 1 of the format has no deletes; ALTER "
                "TABLE ... SET TBLPROPERTIES ('format-version' = '2')",
                **about,
            )
        if others:
            raise UsageError(
                "the sink cannot replace rows of this Iceberg table: a row is looked for in the partition of its key "
                "only, and keyColumns lack columns by which the table is partitioned; add them, or partition it by "
                "others",
                **about,
                missing=others,
            )
        if spec.fields and iceberg_deletes.has_files_of_other_partitions(snapshot, self._table.io, spec.spec_id):
            raise UsageError(
                "the sink cannot replace rows of this Iceberg table: it has files from before its partitions were "
                "changed, in which no row would be found; rewrite them: CALL system.rewrite_data_files(table => ..., "
                "options => map('rewrite-all', 'true'))",
                **about,
            )

    def _check_name_mapping(self) -> None:
        """Refuse a table whose name mapping does not know a column: its values would be read as nulls."""
        mapping = self._table.metadata.name_mapping()
        if mapping is None:
            return
        known = dict(_mapped(mapping.root))
        for names, field_id in _mapped(self._table.schema().name_mapping.root):
            if known.get(names) != field_id:
                raise UsageError(
                    "the table's name mapping does not lead to a column, so that its values would be read as nulls; "
                    f"remove the property {TableProperties.DEFAULT_NAME_MAPPING}, or correct it",
                    table=self.name,
                    column=".".join(names),
                )


def _mapped(fields: Sequence[Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """All names of all fields of a name mapping, with their ids."""
    for field in fields:
        for name in field.names:
            yield (*above, name), field.field_id
            yield from _mapped(field.fields, (*above, name))


@contextmanager
def _failing(table: str) -> Iterator[None]:
    """Turn what pyiceberg raises into oncelog's errors; a commit that others overtook is left as it is."""
    try:
        yield
    except (OncelogError, CommitFailedException):
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as problem:
        raise UsageError(
            "the catalog has no such table; create it, or correct the options table and catalog",
            table=table,
            reason=_line(problem),
        ) from None
    except Exception as problem:  # each catalog's client has errors of its own
        raise TableUnavailableError(
            "the table's catalog or storage cannot be reached now, or denies access",
            table=table,
            reason=f"{type(problem).__name__}: {_line(problem)}",
        ) from problem


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())
