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

from oncelog import folders
from oncelog.batches.committables import CommitterTarget, committable_ledgers
from oncelog.batches.committer import Committable, Committer
from oncelog.errors import CorruptDataError
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.committer_sink import CommitterSink
from oncelog.spark.kit.options import HistoryOptions

LEDGERS = committable_ledgers("/json_folders")


class JsonFolder(Committer[DataFrame]):
    """Visible files are in the folder; files of undecided batches are in ``_staging``, which Spark ignores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._staging = folder / "_staging"

    def stage(self, job: DataFrame, attempt: str) -> Committable:
        staging = self._staging / attempt
        job.write.json(str(staging))
        for number, file in enumerate(sorted(staging.glob("part-*.json"))):
            with file.open("rb") as written:
                os.fsync(written.fileno())
            file.rename(staging / f"{attempt}-{number}.json")
        folders.sync(staging)
        files = sorted(staging.glob(f"{attempt}-*.json"))
        return Committable(tuple(file.name for file in files), sum(file.read_bytes().count(b"\n") for file in files))

    def commit(self, parts: Sequence[str]) -> None:
        for name in parts:
            try:
                (self._staging / name.rpartition("-")[0] / name).replace(self.folder / name)
            except FileNotFoundError:
                if not (self.folder / name).exists():  # otherwise another driver has moved it
                    raise CorruptDataError("a file of a decided batch is gone", file=name) from None
        folders.sync(self.folder)

    def discard(self, attempt: str) -> None:
        shutil.rmtree(self._staging / attempt, ignore_errors=True)


class JsonFolderSink(CommitterSink[HistoryOptions]):
    """Writes micro-batches as JSON files into a folder; its ledger is in the znode store `ledger`."""

    def __init__(self, folder: str, ledger: str, prefix: str | None = None) -> None:
        super().__init__(HistoryOptions(transactional_id_prefix=prefix, znodes=ledger))
        self._folder = Path(folder)

    def new_target(self, store: ZnodeStore) -> CommitterTarget[DataFrame]:
        return CommitterTarget(store, LEDGERS, lambda _: JsonFolder(self._folder))
