"""The function for ``writeStream.foreachBatch``, for any plan, source and target.

It runs in the user's driver process, once for each micro-batch, and runs the batch's plan once. If others aborted the
batch before it was decided, it runs the plan a second time, as a restart of the query would; a stateful query leaves
that to the restart, because its state stores accept a batch only once. After `query.stop()` Spark lets this function
finish, so what may still be written is decided by the ledger's fencing, not by Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import DataFrame

from oncelog.batches.attempt import Batch, BatchReport, Target
from oncelog.batches.ledger import all_kinds
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.run import BatchDriver
from oncelog.errors import BatchRefusedError
from oncelog.ports import ZnodeStore
from oncelog.secrecy import hidden
from oncelog.signatures import checked
from oncelog.spark.kit import context, watching
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.jvm import JobNames
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.kit.requests import batch_request
from oncelog.spark.kit.warning import errors_in_one_line, warn_without_prefix
from oncelog.spark.versions import refuse_connect

O = TypeVar("O", bound=HistoryOptions)  # noqa: E741 - options
T = TypeVar("T", bound=Target[Any])


class ForeachBatchSink(ABC, Generic[O, T]):
    """Writes each micro-batch exactly once; can be pickled.

    Attributes:
        format_name: the ``writeStream.format`` that writes the same rows, if there is one.
        keeps_its_ledger: whether its ledger is part of what it writes to, and can be in no other place.
        last_report: what the last call did; None before the first.
    """

    format_name: ClassVar[str | None] = None
    keeps_its_ledger: ClassVar[bool] = False

    def __init__(self, options: O) -> None:
        self.options = options
        self._target: T | None = None
        self._has_warned = False
        self.last_report: BatchReport | None = None

    def __repr__(self) -> str:
        return hidden(f"{type(self).__name__}({self.options!r})")

    @checked
    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the rows of `df` as micro-batch `batch_id`; a batch that was decided before is not written again.

        Raises:
            OncelogError: see `BatchDriver.run`.
            InvalidRecordError: a column is missing or has the wrong type.
            UsageError: `df` does not belong to a running query, or belongs to a Spark Connect session; `batch_id` is
                not that of the batch that Spark is running.
        """
        refuse_connect(self.format_name, is_connect=type(df).__module__.startswith("pyspark.sql.connect."))
        with context.short_when_stopped(df), watching.told(self, df), errors_in_one_line():
            self._write(df, batch_id)

    def _write(self, df: DataFrame, batch_id: int) -> None:
        rows = self.columns(df)
        batch = self._running_batch(df, batch_id)
        target = self.open()
        self.last_report = self._driver(df, target).run(self.batch(rows, batch, target))
        finish_replay(df, batch, self.last_report)

    def _running_batch(self, df: DataFrame, batch_id: int) -> BatchContext:
        """What Spark knows of the batch that it is running; see `context.check_batch_id`."""
        context.check_batch_id(df, batch_id)
        return self.context(df, batch_id)

    @property
    def parts(self) -> tuple[ForeachBatchSink[Any, Any], ...]:
        """The sinks that write with this one: it alone, unless it is made of several."""
        return (self,)

    @property
    def target_name(self) -> str:
        """What it writes to, by the name of its kind of ledger, such as ``postgres``."""
        ledgers = getattr(self._target, "ledgers", None)
        return next((name for name, kind in all_kinds().items() if kind is ledgers), type(self).__name__)

    def _driver(self, df: DataFrame, *targets: Target[Any]) -> BatchDriver:
        """The driver of a batch. Spark's UI shows what its jobs are for."""
        named, kind = JobNames(df.sparkSession.sparkContext), type(self).__name__
        return BatchDriver(*targets, named=lambda phase: named(f"oncelog: {phase} of {kind}"))

    def open(self, ledger: ZnodeStore | None = None) -> T:
        """The target. Its ledger is in `ledger`, if that is given, instead of the place that the options name."""
        self._target = self.open_target(self._target, ledger)
        return self._target

    def batch(self, rows: DataFrame, batch: BatchContext, target: T) -> Batch[Any]:
        """A batch for the target."""
        if not self._has_warned:
            warn_without_prefix(self.options, batch.query_id)
            self._has_warned = True
        return Batch(
            batch_request(self.options, batch, batch.run_id),
            self.job(rows),
            self.progress(target, batch) if self.options.group_id else None,
            is_repeatable=not batch.has_state,
        )

    # What a sink of one kind overrides

    def columns(self, df: DataFrame) -> DataFrame:
        """The rows in the sink's columns."""
        return df

    def named_ledger(self) -> str | None:
        """The place of the ledger as the options name it; None if they leave it to the sink."""
        return self.options.znodes

    def context(self, df: DataFrame, batch_id: int) -> BatchContext:
        """What Spark knows of the batch; see `context.of_foreach_batch`."""
        return context.of_foreach_batch(df, batch_id)

    @abstractmethod
    def open_target(self, known: T | None, ledger: ZnodeStore | None) -> T:
        """The target: `known`, which the last batch used, unless a new one must be opened; see `open`."""

    def job(self, rows: DataFrame) -> Any:
        """What the target takes as a job."""
        return rows

    def progress(self, target: T, batch: BatchContext) -> GroupProgress[Any]:
        """The source offsets that are committed to the group with the batch, if the target keeps groups."""
        raise BatchRefusedError("this sink keeps no consumer group; leave groupId out", group_id=self.options.group_id)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_target": None, "_has_warned": False, "last_report": None}


def finish_replay(df: DataFrame, batch: BatchContext, report: BatchReport) -> None:
    """If no rows were written, run the plan of a query with state: Spark fails it if a state store did not commit."""
    if report.is_replay and batch.has_state:
        df.write.format("noop").mode("overwrite").save()
