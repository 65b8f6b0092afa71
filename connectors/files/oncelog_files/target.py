"""A folder as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from pyspark.sql import DataFrame

from oncelog.ports import Clock, ZnodeStore
from oncelog.spark.kit.receipts import ReceiptsAttempt
from oncelog.spark.kit.target import Batch, BatchReport
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_files.ledgers import FILES_LEDGERS
from oncelog_files.options import SinkOptions
from oncelog_files.place import FolderPlace


class FilesTarget:
    """A folder that batches are written to; see `Target`.

    Args:
        store: where the ledgers are kept.
        options: of the sink.
    """

    clock: Clock = SYSTEM_CLOCK
    ledgers = FILES_LEDGERS

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        self.store = store
        self.options = options

    def attempt(self, batch: Batch[DataFrame]) -> FilesAttempt:
        return FilesAttempt(self, batch)


class FilesAttempt(ReceiptsAttempt[DataFrame]):
    """One round on its way into a folder; see `Attempt`."""

    def __init__(self, target: FilesTarget, batch: Batch[DataFrame]) -> None:
        asked = batch.request
        self._folder = FolderPlace(target.options, asked.prefix, asked.batch_id, batch.job)
        super().__init__(target.store, target.ledgers, self._folder, batch)

    def prepare(self, report: BatchReport) -> None:
        self._folder.prepare(self._written.names)

    def finish(self) -> None:
        self._discard_again()
        super().finish()

    def has_history(self) -> bool:
        return self._batch.request.batch_id > 0 and self._folder.has_batches()
