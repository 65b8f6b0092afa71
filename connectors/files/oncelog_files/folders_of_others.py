"""Folders whose readers go by a list of files that others keep: they would never see what this sink writes there."""

from __future__ import annotations

from typing import Final

from oncelog.errors import UsageError
from oncelog.spark.kit.spark_files import SparkFiles

_LISTS: Final = {
    "_spark_metadata": "Spark's own file sink",
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
}
"""The folders with such lists, and whose they are."""

_ICEBERG: Final = "metadata", ".metadata.json"
"""The folder, and the end of the names that files have there."""


def refuse(files: SparkFiles) -> None:
    """Refuse such a folder.

    Raises:
        UsageError: whose it is, and what to do.
        FileUnavailableError: it cannot be read.
    """
    owners = [owner for name, owner in _LISTS.items() if files.is_folder(name)]
    folder, end = _ICEBERG
    if any(name.endswith(end) for name in files.names(folder)):
        owners.append("an Iceberg table")
    if owners:
        raise UsageError(
            "the folder belongs to another writer, whose list of files its readers go by, so they would not see what "
            "this sink writes: give the sink a folder of its own; docs/guides/files.md says how to move a query over",
            path=files.root,
            owner=owners[0],
        )
