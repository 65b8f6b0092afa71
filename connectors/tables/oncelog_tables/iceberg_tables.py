"""Iceberg tables, through pyiceberg: a catalog's metadata is read and committed to here, and no rows.

A commit adds a snapshot with the files of a batch, and sets a property of the table: the newest batch of this sink.
Both are in one new version of the metadata, so the table has the batch if and only if it says so. Snapshots expire, and
with them all that their summaries say; a property stays.

Two drivers may carry the same decision out at once. Each has looked for the property in the version from which it makes
its snapshot, and the catalog takes a snapshot only if the branch still ends where it ended in that version. So one of
two is refused, and finds the batch at its next look. pyiceberg by itself would add a snapshot that was refused to the
newer version, without that look: it is told not to.

A batch that an older oncelog decided has files without field ids. For these the commit sees to it that the table has a
name mapping, as `Table.add_files` does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final, cast

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as CatalogTable
from pyiceberg.table import TableProperties, Transaction

from oncelog.errors import UsageError
from oncelog_tables import field_ids, iceberg_deletes, iceberg_errors, iceberg_metrics, iceberg_types, keys
from oncelog_tables.columns import TableColumn
from oncelog_tables.decisions import Decided
from oncelog_tables.footers import FileFacts
from oncelog_tables.iceberg_files import ManifestFiles
from oncelog_tables.iceberg_memory import KeptInMemory
from oncelog_tables.keys import KeyColumn
from oncelog_tables.partitions import Folders

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
        with iceberg_errors.translated(name):
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
        self.columns: Sequence[TableColumn] = iceberg_types.columns(table.schema())
        self.keys: Sequence[KeyColumn] = keys.find(key_columns, name, self.columns)
        self._equality_ids = [key.ids.own for key in self.keys if key.ids]
        if self.keys:
            self._check_deletes()
        of_keys = [self._equality_ids] if self.keys else []
        self.layout = json.dumps([metadata.default_spec_id, self._location, *of_keys])

    @property
    def partitioned_by(self) -> Mapping[str, Folders]:
        return {folder.name: Folders(folder.value, folder.label) for folder in self._folders if folder}

    def last_batch(self, app_id: str) -> int | None:
        found = self._table.metadata.properties.get(BATCHES + app_id)
        return None if found is None else int(found)

    def opened(self, path: str) -> IO[bytes]:
        return cast("IO[bytes]", self._table.io.new_input(f"{self._location}/{path}").open())

    def takes(self, layout: str) -> bool:
        """Also files that are parted by an earlier spec, unless deletes would not find the rows in such files."""
        spec_id, *others = json.loads(layout)
        now, *others_now = json.loads(self.layout)
        return others == others_now and (spec_id == now or (not self.keys and spec_id in self._table.specs()))

    def rehearse(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> None:
        for file in files:
            iceberg_metrics.check_ids(file.footer, self._table.schema(), self.name)
        newest = self._table.current_snapshot()
        with iceberg_errors.translated(self.name):
            if newest is not None:
                newest.manifests(self._table.io)  # pyiceberg caches them
        rehearsed = copy.copy(self._table)
        rehearsed.io = KeptInMemory(self._table.io)
        self._staged(rehearsed, decided, folder, files)

    def commit(self, decided: Decided, folder: str, files: Sequence[FileFacts]) -> str | None:
        try:
            with iceberg_errors.translated(self.name):
                self._staged(self._table, decided, folder, files).commit_transaction()
        except CommitFailedException as refused:
            return iceberg_errors.line(refused)
        return None

    def _staged(self, table: CatalogTable, decided: Decided, folder: str, files: Sequence[FileFacts]) -> Transaction:
        """A transaction with a batch, whose manifests are written."""
        metadata = table.metadata
        spec_id = json.loads(decided.layout)[0]
        described = ManifestFiles(
            self.name, metadata, spec_id, f"{self._location}/{folder}", self._equality_ids
        ).described
        once = {**metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        # What this process knows of the table; pyiceberg makes manifests of the default spec only.
        table.metadata = metadata.model_copy(update={"properties": once, "default_spec_id": spec_id})
        said = {"oncelog.app-id": decided.app_id, "oncelog.batch-id": str(decided.batch_id)}
        properties = {BATCHES + decided.app_id: str(decided.batch_id)}
        if not field_ids.are_in(decided.columns):
            properties |= self._name_mapping()
        transaction = table.transaction()
        transaction.set_properties(properties)
        with self._snapshot(table, transaction, said) as snapshot:
            for added in map(described, files):
                if added.content is DataFileContent.DATA:
                    snapshot.append_data_file(added)
                else:
                    snapshot.append_delete_file(added)
        return transaction

    def _snapshot(self, table: CatalogTable, transaction: Transaction, said: dict[str, str]) -> Any:
        if self.keys:
            return iceberg_deletes.ReplacingRows(transaction, table.io, said)
        return transaction.update_snapshot(snapshot_properties=said).fast_append()

    def _check_deletes(self) -> None:
        """Refuse a table in which an equality delete does not take out each older row of its key.

        Raises:
            UsageError: see above.
        """
        metadata, spec = self._table.metadata, self._table.spec()
        parted_by = [field.source_id for field, folder in zip(spec.fields, self._folders, strict=True) if folder]
        others = [metadata.schema().find_column_name(one) for one in parted_by if one not in self._equality_ids]
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

    def _name_mapping(self) -> dict[str, str]:
        """The property by which readers find the columns in files without field ids, if the table lacks it.

        Raises:
            UsageError: the table's name mapping does not know a column, whose values would be read as nulls.
        """
        mapping = self._table.metadata.name_mapping()
        if mapping is None:
            return {TableProperties.DEFAULT_NAME_MAPPING: self._table.schema().name_mapping.model_dump_json()}
        known = dict(_mapped(mapping.root))
        for names, field_id in _mapped(self._table.schema().name_mapping.root):
            if known.get(names) != field_id:
                raise UsageError(
                    "the table's name mapping does not lead to a column, so that its values would be read as nulls; "
                    f"remove the property {TableProperties.DEFAULT_NAME_MAPPING}, or correct it",
                    table=self.name,
                    column=".".join(names),
                )
        return {}


def _mapped(fields: Sequence[Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """All names of all fields of a name mapping, with their ids."""
    for field in fields:
        for name in field.names:
            yield (*above, name), field.field_id
            yield from _mapped(field.fields, (*above, name))
