"""A custom sink: JSON files in a folder, exactly once. The example of docs/guides/extending-target.md.

query = (df.writeStream.foreachBatch(JsonFolderSink("/data/out", ledger="/data/ledger"))
         .option("checkpointLocation", "/data/checkpoint").start())
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from oncelog import folders, metadata
from oncelog.batches.committables import Receipts, ReceiptsTarget, receipts_ledgers
from oncelog.errors import CorruptDataError
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.kit.sink import ForeachBatchSink

LEDGERS = receipts_ledgers("/json_folders")


class JsonFolder:
    """Visible files are in the folder; files of undecided batches are in ``_staging``, which Spark ignores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._staging = folder / "_staging"

    def write(self, job: DataFrame, attempt: str) -> Receipts:
        staging = self._staging / attempt
        job.write.json(str(staging))
        for number, file in enumerate(sorted(staging.glob("part-*.json"))):
            with file.open("rb") as written:
                os.fsync(written.fileno())
            file.rename(staging / f"{attempt}-{number}.json")
        folders.sync(staging)
        files = sorted(staging.glob(f"{attempt}-*.json"))
        return Receipts(tuple(file.name for file in files), sum(file.read_bytes().count(b"\n") for file in files))

    def show(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                (self._staging / name.rpartition("-")[0] / name).replace(self.folder / name)
            except FileNotFoundError:
                if not (self.folder / name).exists():  # otherwise another driver has moved it
                    raise CorruptDataError("a file of a decided batch is gone", file=name) from None
        folders.sync(self.folder)

    def discard(self, attempt: str) -> None:
        shutil.rmtree(self._staging / attempt, ignore_errors=True)


class JsonFolderSink(ForeachBatchSink[HistoryOptions, ReceiptsTarget[DataFrame]]):
    """Writes micro-batches as JSON files into a folder; its ledger is in the znode store `ledger`."""

    def __init__(self, folder: str, ledger: str, prefix: str | None = None) -> None:
        super().__init__(HistoryOptions(transactional_id_prefix=prefix))
        self._folder, self._ledger = folder, ledger

    def _columns(self, df: DataFrame) -> DataFrame:
        return df

    def _opened(self, known: ReceiptsTarget[DataFrame] | None, ledger: ZnodeStore | None) -> ReceiptsTarget[DataFrame]:
        store = ledger or metadata.open_metadata(self._ledger)
        return known or ReceiptsTarget(store, LEDGERS, JsonFolder(Path(self._folder)))
