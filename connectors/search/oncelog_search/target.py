"""An index as a target of batches; place.py does the work, and the kit the rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.transaction import Step
from oncelog.errors import RunSupersededError
from oncelog.ports import Clock, ZnodeStore, ZnodeView
from oncelog.spark.kit.staging import StagingAttempt
from oncelog.types import Outcome
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_search import manifests
from oncelog_search.jobs import Job
from oncelog_search.ledgers import SEARCH_LEDGERS
from oncelog_search.manifests import Decided
from oncelog_search.options import SinkOptions
from oncelog_search.place import IndexPlace
from oncelog_search.server import SearchServer


class SearchTarget:
    """An index that batches are written to; see `Target`.

    Args:
        store: where the ledgers are kept.
        options: of the sink.
    """

    clock: Clock = SYSTEM_CLOCK
    ledgers = SEARCH_LEDGERS

    def __init__(self, store: ZnodeStore, options: SinkOptions) -> None:
        self.store = store
        self.options = options
        self.server = SearchServer(options.address)

    def attempt(self, batch: Batch[Job]) -> SearchAttempt:
        return SearchAttempt(self, batch)


class SearchAttempt(StagingAttempt[Job]):
    """One round on its way into an index; see `Attempt`."""

    def __init__(self, target: SearchTarget, batch: Batch[Job]) -> None:
        asked = batch.request
        self._index = IndexPlace(target.options, target.server, asked.prefix, asked.batch_id, batch.job)
        super().__init__(target.store, target.ledgers, self._index, batch)

    def plan(self) -> Step[Any]:
        self._index.restate = self._restate
        return super().plan()

    def write(self, report: BatchReport) -> None:
        self._index.last_version = self._last_version()
        super().write(report)

    def finish(self) -> None:
        self._index.forget([record.nonce for record in self._rounds().values()])
        super().finish()

    def _last_version(self) -> int:
        """The version of the last batch that was decided; the ledger always has that."""
        decided = [record.names for record in self._rounds().values() if record.outcome is Outcome.COMMIT]
        return max((manifests.of_names(names).version for names in decided), default=0)

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
                known = manifests.of_names(record.names).version
                newest = replace(batch, version=max(batch.version, known))
                kind.put_round(view, prefix, number, replace(record, names=newest.names()))
                return newest
        raise RunSupersededError(
            "another driver has completed this batch", prefix=prefix, batch_id=batch.batch_id, attempt=batch.attempt
        )
