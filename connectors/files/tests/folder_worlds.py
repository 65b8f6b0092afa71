"""Folders and drivers of these tests, and a reader that shares no code with the sink, and none with Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as arrow
from pyspark.sql import DataFrame, SparkSession

from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import BrokenJob, LedgerWorld
from oncelog_files import options as sink_options
from oncelog_files.batch_sink import FilesTarget
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.spark.staging import left_staging

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLANNED,
    FilesCrashPoint.WRITTEN,
    FilesCrashPoint.LISTED,
    CrashPoint.ROUND_DECIDE,
)
"""The points that a batch passes once it is planned, up to its decision."""

BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    FilesCrashPoint.SHOW,
    FilesCrashPoint.SHOWN,
    FilesCrashPoint.PUBLISHED,
    FilesCrashPoint.REMOVED,
    CrashPoint.SINK_DONE,
)
"""Those that it passes then."""


def visible(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of all Parquet files that plain readers see, sorted."""
    files = []
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if is_visible(Path(above, name), folder)]  # others may vanish now
        files += [file for name in names if is_visible(file := Path(above, name), folder) and file.suffix == ".parquet"]
    if not files:
        return []
    found = arrow.dataset(files, format="parquet").to_table(columns=list(columns))
    return sorted(tuple(row.values()) for row in found.to_pylist())


def is_visible(file: Path, folder: Path) -> bool:
    return not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


class FilesWorld(LedgerWorld):
    """A folder, and drivers that write into it.

    Args:
        spark: of all drivers.
        options: of the sink, beside those that it must have.
    """

    def __init__(self, folder: Path, spark: SparkSession, **options: Any) -> None:
        super().__init__(folder)
        self.spark = spark
        self.out = folder / "out"
        self.options = options

    def target(self) -> FilesTarget:
        return FilesTarget(self.store, sink_options.parse({"path": str(self.out), **self.options}))

    def job(self, values: Sequence[str]) -> DataFrame:
        return self.spark.createDataFrame([(value,) for value in values], "value string").coalesce(2)

    def broken_job(self) -> Any:
        job = BrokenJob()
        job.__dict__["sparkSession"] = self.spark  # it fails when its rows are asked for
        return job

    def visible(self) -> list[str]:
        return [value for (value,) in visible(self.out, "value")]

    def left(self) -> list[str]:
        return left_staging(self.out)
