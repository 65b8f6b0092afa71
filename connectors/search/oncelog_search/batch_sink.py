"""The search sink for ``writeStream.foreachBatch(oncelog_search.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.committables import CommittableAttempt, CommitterTarget
from oncelog.batches.transaction import Step
from oncelog.errors import RunSupersededError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import FolderSink
from oncelog.types import Outcome
from oncelog_search import manifests
from oncelog_search import options as sink_options
from oncelog_search.committer import IndexCommitter
from oncelog_search.jobs import Job, SparkJob
from oncelog_search.ledgers import SEARCH_LEDGERS
from oncelog_search.manifests import Decided
from oncelog_search.options import SinkOptions
from oncelog_search.server import SearchServer


class SearchTarget(CommitterTarget[Job]):
    """An index that batches are written to; see `Target`."""

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        server = SearchServer(options.address)
        super().__init__(store, SEARCH_LEDGERS, lambda batch: IndexCommitter(options, server, batch))
        self.options = options

    def attempt(self, batch: Batch[Job]) -> SearchAttempt:
        return SearchAttempt(self.store, self.ledgers, self.open_committer(batch), batch)


class SearchAttempt(CommittableAttempt[Job]):
    """One round on its way into an index; see `Attempt`. The ledger keeps the version of its documents."""

    committer: IndexCommitter

    def plan(self) -> Step[Any]:
        self.committer.restate = self._restate
        return super().plan()

    def write(self, report: BatchReport) -> None:
        self.committer.last_version = self._last_version()
        super().write(report)

    def _last_version(self) -> int:
        """The version of the last batch that was decided; the ledger always has that."""
        decided = [record.names for record in self._rounds().values() if record.outcome is Outcome.COMMIT]
        return max((manifests.of_parts(names).version for names in decided), default=0)

    def _restate(self, batch: Decided) -> Decided:
        return self._steps.run(lambda view: self._put(view, batch))

    def _put(self, view: ZnodeView, batch: Decided) -> Decided:
        """Have the ledger keep a batch with its new version, if it is not complete, and this is the newest driver.

        Raises:
            RunSupersededError: another driver took over.
        """
        self._steps.check_live(view)
        kind, prefix = self._steps.kind, self._batch.request.prefix
        for number, record in kind.read_rounds(view, prefix).items():
            if record.nonce == batch.attempt and not record.is_over:
                known = manifests.of_parts(record.names).version
                newest = replace(batch, version=max(batch.version, known))
                kind.put_round(view, prefix, number, replace(record, names=newest.parts()))
                return newest
        raise RunSupersededError(
            "another driver has completed this batch", prefix=prefix, batch_id=batch.batch_id, attempt=batch.attempt
        )


class SearchSink(FolderSink[SinkOptions]):
    """Writes each micro-batch exactly once. Create it with `oncelog_search.sink`; it can be pickled."""

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    @property
    def folder(self) -> str:
        return self.options.staging

    def new_target(self, store: ZnodeStore) -> SearchTarget:
        return SearchTarget(store, self.options)

    def job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows)
