"""A snapshot of an Iceberg table that adds rows and, by equality deletes, takes out older ones with their keys.

By the specification an equality delete applies to data files of smaller sequence numbers. All files of a snapshot have
the same one: so what a batch adds stays, whatever older rows its keys take out, and none of those is read for it.

pyiceberg commits no equality deletes, so this builds upon what it keeps to itself, and nothing else here does. Should a
newer pyiceberg leave the deletes out, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyiceberg
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from oncelog.errors import UsageError
from oncelog.extras import install

_IDS: Final = NestedField(135, "equality_ids", ListType(136, IntegerType(), element_required=True), required=False)
"""In a manifest: the columns by which rows are equal."""


class ReplacingRows(_FastAppendFiles):
    """The snapshot, as a context at whose end it is part of the transaction.

    Args:
        transaction: of a table of format version 2.
        io: of the table.
        said: goes into its summary.
    """

    def __init__(self, transaction: Transaction, io: FileIO, said: Mapping[str, str]) -> None:
        super().__init__(Operation.OVERWRITE, transaction, io, snapshot_properties=dict(said))
        self._delete_files: list[DataFile] = []
        self._has_deletes = False

    def append_delete_file(self, file: DataFile) -> None:
        """Add an equality delete, of the table's present partitions."""
        self._delete_files.append(file)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        writer = _DeleteManifest(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )
        with writer:
            for file in self._delete_files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,  # that of the snapshot
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        self._has_deletes = True
        return super()._process_manifests([*manifests, writer.to_manifest_file()])

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        """It counts the deletes, too."""
        added = self._added_data_files
        try:
            self._added_data_files = [*added, *self._delete_files]
            return super()._summary(snapshot_properties or {})
        finally:
            self._added_data_files = added

    def _commit(self) -> Any:
        updates = super()._commit()
        if not self._has_deletes:
            raise UsageError(
                "this version of the package pyiceberg leaves the deletes out of a snapshot; "
                f"{install('iceberg')}: it asks for one that does not",
                installed=pyiceberg.__version__,
            )
        return updates


class _DeleteManifest(ManifestWriterV2):
    """A manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        """The ids of columns are of the specification's type, on which Java insists; pyiceberg 0.12 has a wider one."""
        parts = self._spec.partition_type(self._schema)
        known = data_file_with_partition(partition_type=parts, format_version=format_version).fields
        fields = (_IDS if field.field_id == _IDS.field_id else field for field in known)
        return manifest_entry_schema_with_data_file(format_version=format_version, data_file=StructType(*fields))


def has_files_of_other_partitions(snapshot: Snapshot | None, io: FileIO, spec_id: int) -> bool:
    """Whether a snapshot has rows in files that are parted in another way than by this spec."""
    manifests = [] if snapshot is None else snapshot.manifests(io)
    return any(
        manifest.content == ManifestContent.DATA
        and manifest.partition_spec_id != spec_id
        and (manifest.has_added_files() or manifest.has_existing_files())
        for manifest in manifests
    )
