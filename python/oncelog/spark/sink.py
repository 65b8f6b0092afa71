"""The main door of the sink: ``writeStream.foreachBatch(oncelog.spark.sink(...))``, for any plan and source.

It runs in the user's driver process, once per micro-batch. The batch's plan is run once, and a second time if others
aborted what it wrote before it was decided; a plan with state leaves that to the query's restart. After `query.stop()`
Spark lets this function run on to its end: the ledger's fence, not Spark, decides what may still be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.signatures import checked
from oncelog.spark import context, group_offsets, schema, writing
from oncelog.spark.driver import BatchDriver, BatchReport, batch_request
from oncelog.spark.logs import open_log
from oncelog.spark.option_table import Use
from oncelog.spark.options import parse_sink_options


class Sink:
    """Writes each micro-batch it is called with, exactly once. Made by `sink`; pickles.

    Attributes:
        last_report: what the last call did; None before the first.
    """

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = parse_sink_options(options, Use.FOREACH_BATCH)
        self._driver: BatchDriver | None = None
        self.last_report: BatchReport | None = None

    @checked
    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the rows of `df` as micro-batch `batch_id`; a batch that the log holds already is left alone.

        Raises:
            BatchRefusedError, RunSupersededError: the history under the prefix contradicts this batch.
            InvalidRecordError: a column is missing or of a wrong type.
            UnknownTopicError, UnknownPartitionError, RecordTooLargeError: nothing was written.
        """
        options = self._options
        rows = schema.to_sink_columns(df, options.topic)
        batch = context.of_foreach_batch(df, batch_id)
        request = batch_request(options, batch, batch.run_id)
        driver = self._driver_here()
        offsets = group_offsets.of_batch(batch, options.group_id, driver.log.cluster_id) if options.group_id else None
        self.last_report = driver.run(
            request,
            offsets,
            lambda task: writing.run_job(rows, task),
            is_repeatable=not batch.has_state,  # whose stores take a batch once
        )
        if self.last_report.is_replay and batch.has_state:
            # Spark fails a batch after which a state store did not commit: run its plan, and write nothing.
            df.write.format("noop").mode("overwrite").save()

    def _driver_here(self) -> BatchDriver:
        log = open_log(self._options.path, self._options.znodes)
        if self._driver is None or self._driver.log is not log:
            self._driver = BatchDriver(log, self._options)
        return self._driver

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_driver": None, "last_report": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def sink(**options: Any) -> Sink:
    """An exactly-once sink for ``writeStream.foreachBatch``.

    Args:
        options: those of the sink, in Spark's spelling: path, topic, transactionalIdPrefix, groupId, ...

    Returns:
        a function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.

    Example:
        query = (df.writeStream.foreachBatch(oncelog.spark.sink(path="/data/log", topic="delayed"))
                 .option("checkpointLocation", "/data/ck").start())
    """
    return Sink(options)
