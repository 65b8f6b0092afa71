"""A folder as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from pyspark.sql import DataFrame

from oncelog.batches.attempt import Batch
from oncelog.ports import Clock, ZnodeStore
from oncelog.spark.kit.staging import StagingAttempt
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
        self._own_folders: set[str] = set()

    def attempt(self, batch: Batch[DataFrame]) -> StagingAttempt[DataFrame]:
        asked = batch.request
        place = FolderPlace(self.options, asked.prefix, asked.batch_id, batch.job, self._own_folders)
        return StagingAttempt(self.store, self.ledgers, place, batch)
