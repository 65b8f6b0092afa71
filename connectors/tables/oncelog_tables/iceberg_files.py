"""The files of a batch in the words of an Iceberg table's manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from oncelog_tables import iceberg_types, keys, partitions
from oncelog_tables.footers import FileFacts
from oncelog_tables.iceberg_metrics import MetricsPlan


class ManifestFiles:
    """Describes files to a table.

    Args:
        table: its name, for errors.
        metadata: of the table.
        spec_id: by which the files are parted; it may be an older one.
        folder: the URI of their folder.
        equality_ids: of the columns in files of keys.

    Raises:
        UsageError: the values of a partition cannot be told any more.
    """

    def __init__(
        self, table: str, metadata: TableMetadata, spec_id: int, folder: str, equality_ids: Sequence[int]
    ) -> None:
        self._folders = iceberg_types.folders(table, metadata.schema(), metadata.specs()[spec_id])
        self._plan = MetricsPlan(metadata.schema(), metadata.properties)
        self._spec_id = spec_id
        self._folder = folder
        self._equality_ids = list(equality_ids)

    def described(self, file: FileFacts) -> DataFile:
        """The file's entry in a manifest: of rows, or of deletes."""
        is_of_keys = keys.is_of_keys(file.name)
        return DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES if is_of_keys else DataFileContent.DATA,
            file_path=f"{self._folder}/{file.name}",
            file_format=FileFormat.PARQUET,
            partition=self._partition(file),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=self._spec_id,
            equality_ids=self._equality_ids if is_of_keys else None,
            key_metadata=None,
            **asdict(self._plan.of_file(file.footer)),
        )

    def _partition(self, file: FileFacts) -> Record:
        values = partitions.values_of(file.name.removeprefix(keys.FOLDER))
        return Record(*(folder and folder.read(values[folder.name]) for folder in self._folders))
