"""The exactly-once Kafka sink: ``writeStream.foreachBatch(oncelog_kafka.sink(...))``, for any plan and source.

It runs in the user's driver process, once per micro-batch. The batch's plan is run once, and a second time if others
aborted what it wrote before it was decided, as a restart of the query would do. A plan with state is left to that
restart: its stores take a batch once. After `query.stop()` Spark lets this function run on to its end: the ledger's
fence, not Spark, decides what may still be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.errors import NotPreparedError, RoundAbortedError
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.signatures import checked
from oncelog.spark import context
from oncelog.spark.context import BatchContext
from oncelog.spark.offsets import fingerprint
from oncelog_kafka import columns, connections, source_offsets
from oncelog_kafka import options as sink_options
from oncelog_kafka.driver import BatchDriver, BatchReport
from oncelog_kafka.options import SinkOptions


class KafkaSink:
    """Writes each micro-batch it is called with, exactly once. Made by `oncelog_kafka.sink`; pickles.

    Attributes:
        last_report: what the last call did; None before the first.
    """

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = sink_options.parse(options)
        self._driver: BatchDriver | None = None
        self.last_report: BatchReport | None = None

    @checked
    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the rows of `df` as micro-batch `batch_id`; a batch that was decided before is finished, not written.

        Raises:
            OncelogError: see `BatchDriver.run`.
            InvalidRecordError: a column is missing or of a wrong type.
        """
        options = self._options
        rows = columns.to_sink_columns(df, options.topic)
        batch = context.of_foreach_batch(df, batch_id)
        offsets = source_offsets.of_batch(batch, options.group_id) if options.group_id else None
        request, driver = batch_request(options, batch), self._driver_here()
        try:
            self.last_report = driver.run(request, rows, offsets)
        except (NotPreparedError, RoundAbortedError):  # nothing was decided, and no newer driver is there
            if batch.has_state:
                raise
            self.last_report = driver.run(request, rows, offsets)
        if self.last_report.is_replay and batch.has_state:
            # Spark fails a batch after which a state store did not commit: run its plan, and write nothing.
            df.write.format("noop").mode("overwrite").save()

    def _driver_here(self) -> BatchDriver:
        if self._driver is None:
            store = connections.open_store(self._options.znodes)
            self._driver = BatchDriver(store, connections.open_brokers(self._options.admin), self._options)
        return self._driver

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_driver": None, "last_report": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def batch_request(options: SinkOptions, batch: BatchContext) -> BatchRequest:
    """What a sink asks of the ledger for a batch; a `sinkName` gives it a history of its own below the prefix."""
    prefix = options.transactional_id_prefix or batch.query_id
    return BatchRequest(
        prefix=f"{prefix}.{options.sink_name}" if options.sink_name else prefix,
        query_id=batch.query_id,
        sink_name=options.sink_name or options.topic or "",
        run_id=batch.run_id,
        batch_id=batch.batch_id,
        fingerprint=fingerprint(batch.start_offsets, batch.end_offsets),
        group_id=options.group_id,
        takeover=options.takeover,
    )
