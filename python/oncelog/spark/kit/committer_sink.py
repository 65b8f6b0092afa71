"""A sink with a `Committer`: what it has decided can be completed without its query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommitterTarget
from oncelog.batches.rules import BatchRequest
from oncelog.errors import UsageError
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.folders import ledger_inside
from oncelog.spark.kit.ledgers import open_ledger
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.kit.spark_files import SparkFiles
from oncelog.types import Outcome

O = TypeVar("O", bound=HistoryOptions)  # noqa: E741 - options


@dataclass(frozen=True, slots=True)
class Completion:
    """What was left to do for a sink.

    Attributes:
        prefix: of its ledger.
        completed: ids of decided batches that are visible now, and were not.
        discarded: number of aborted rounds whose leftovers were removed.
        undecided: id of the batch that is open: its driver may be at work, or dead; None if there is none.
    """

    prefix: str
    completed: tuple[int, ...]
    discarded: int
    undecided: int | None


class CommitterSink(ForeachBatchSink[O, CommitterTarget[Any]]):
    """Writes each micro-batch exactly once; can be pickled."""

    @abstractmethod
    def new_target(self, store: ZnodeStore) -> CommitterTarget[Any]:
        """The target that the options name, with its ledger in a store."""

    def ledger_place(self) -> str | None:
        """Where the ledger is: a folder or a URL, as for the option znodes."""
        return self.options.znodes

    def open_target(self, known: CommitterTarget[Any] | None, ledger: ZnodeStore | None) -> CommitterTarget[Any]:
        return known or self.new_target(ledger or open_ledger(self.ledger_place()))

    @checked
    def complete(self, spark: SparkSession, prefix: str | None = None) -> Completion:
        """Complete what the sink has decided, for a query that will not be started again.

        A restart of the query does the same first. It may also happen while the query runs.

        Args:
            spark: finds the files, as the query's session does.
            prefix: of the ledger; None if the options name it by transactionalIdPrefix.

        Raises:
            UnknownPrefixError: the sink has written nothing, or keeps its ledger elsewhere.
            UsageError: the prefix is not known.
            OncelogError: the target could not do it; the batch stays decided.
        """
        return self._complete(spark, prefix)

    def _complete(self, spark: SparkSession, prefix: str | None, ledger: ZnodeStore | None = None) -> Completion:
        rows = spark.createDataFrame([], "value string")
        self.look_around(spark)
        target = self.open(ledger)
        named = prefix or self._own_prefix()
        found = target.ledgers.require(target.store, named)
        last = -1 if found.last is None else found.last.batch_id
        asked = BatchRequest(named, found.query_id, found.sink_name, found.run_id, last, "")
        carried_out, forgotten = target.attempt(Batch(asked, self.job(rows))).complete()
        newest = target.ledgers.read_round(target.store, named, found.current_round)
        return Completion(
            named,
            tuple(one.batch_id for one in carried_out if one.outcome is Outcome.COMMIT),
            sum(one.outcome is Outcome.ABORT for one in carried_out) + forgotten,
            newest.batch_id if newest is not None and newest.outcome is Outcome.OPEN else None,
        )

    def look_around(self, spark: SparkSession) -> None:
        """Find out what the sink must know of the session before it opens its target."""

    def _own_prefix(self) -> str:
        if self.options.transactional_id_prefix is None:
            raise UsageError(
                "the sink has no transactionalIdPrefix, so its prefix is the id of its query, with .<sinkName> if it "
                "has one; name it"
            )
        return self.options.prefix("")


class FolderSink(CommitterSink[O]):
    """A sink with a folder of its own, which also has its ledger if no other place is named."""

    def __init__(self, options: O) -> None:
        super().__init__(options)
        self._is_local = False

    @property
    @abstractmethod
    def folder(self) -> str:
        """Its path or URI, as the options give it."""

    def columns(self, df: DataFrame) -> DataFrame:
        self.look_around(df.sparkSession)
        return df

    def look_around(self, spark: SparkSession) -> None:
        if self._target is None:
            self._is_local = SparkFiles(spark, self.folder).is_local

    def ledger_place(self) -> str:
        return self.options.znodes or ledger_inside(self.folder, is_local=self._is_local)


def complete_alone(sink: CommitterSink[Any], prefix: str, ledger: ZnodeStore) -> Completion:
    """Complete what a sink has decided, in a process that does nothing else; see `CommitterSink.complete`.

    Args:
        ledger: where its ledger is.
    """
    with _session() as spark:
        return sink._complete(spark, prefix, ledger)


@contextmanager
def _session() -> Iterator[SparkSession]:
    """The session of this process; else one as spark-defaults.conf wants it, which reports nothing but errors."""
    known = SparkSession.getActiveSession()
    if known is not None:
        yield known
        return
    builder = SparkSession.builder.appName("oncelog batch complete").config("spark.log.level", "ERROR")
    spark = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
