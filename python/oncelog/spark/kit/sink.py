"""The function that a sink gives to ``writeStream.foreachBatch``, for any plan and source and every target.

It runs in the user's driver process, once per micro-batch. The batch's plan is run once, and a second time if others
aborted what it wrote before it was decided, as a restart of the query would do; a plan with state leaves that to the
restart, as its stores take a batch once. After `query.stop()` Spark lets this function run on to its end: the ledger's
fence, not Spark, decides what may still be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import DataFrame

from oncelog.errors import BatchRefusedError
from oncelog.ledger.progress import GroupProgress
from oncelog.signatures import checked
from oncelog.spark.kit import context
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.driver import BatchDriver, batch_request
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.kit.target import Batch, BatchReport, Target
from oncelog.spark.versions import refuse_connect

O = TypeVar("O", bound=HistoryOptions)  # noqa: E741 - options
T = TypeVar("T", bound=Target[Any])


class ForeachBatchSink(ABC, Generic[O, T]):
    """Writes each micro-batch it is called with, exactly once; pickles.

    Attributes:
        format_name: by which Spark writes the same rows without this function, if there is one.
        last_report: what the last call did; None before the first.
    """

    format_name: ClassVar[str | None] = None

    def __init__(self, options: O) -> None:
        self.options = options
        self._target: T | None = None
        self.last_report: BatchReport | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options!r})"

    @checked
    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the rows of `df` as micro-batch `batch_id`; a batch that was decided before is not written again.

        Raises:
            OncelogError: see `BatchDriver.run`.
            InvalidRecordError: a column is missing or of a wrong type.
            UsageError: `df` belongs to no running query, or to one of Spark Connect.
        """
        refuse_connect(self.format_name, is_connect=type(df).__module__.startswith("pyspark.sql.connect."))
        with context.short_when_stopped(df):
            self._write(df, batch_id)

    def _write(self, df: DataFrame, batch_id: int) -> None:
        rows = self._columns(df)
        batch = context.of_foreach_batch(df, batch_id)
        self._target = target = self._opened(self._target)
        asked = Batch(
            batch_request(self.options, batch, batch.run_id),
            self._job(rows),
            self._progress(target, batch) if self.options.group_id else None,
            is_repeatable=not batch.has_state,
        )
        self.last_report = BatchDriver(target).run(asked)
        if self.last_report.is_replay and batch.has_state:
            # Spark fails a batch after which a state store did not commit: run its plan, and write nothing.
            df.write.format("noop").mode("overwrite").save()

    @abstractmethod
    def _columns(self, df: DataFrame) -> DataFrame:
        """The rows in the sink's columns."""

    @abstractmethod
    def _opened(self, known: T | None) -> T:
        """The target: `known`, of the batch before, unless another one must be opened."""

    def _job(self, rows: DataFrame) -> Any:
        """What the target takes as a job."""
        return rows

    def _progress(self, target: T, batch: BatchContext) -> GroupProgress[Any]:
        """The source offsets that become the group's with the batch, where the target keeps groups."""
        raise BatchRefusedError("this sink keeps no consumer group; leave groupId out", group_id=self.options.group_id)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_target": None, "last_report": None}
