"""The log's sink for ``writeStream.foreachBatch(oncelog.spark.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from oncelog.batches.offsets import GroupProgress
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark import group_offsets, jvm_tasks, schema
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.options import Use
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.log_target import Job, LogTarget
from oncelog.spark.logs import open_log
from oncelog.spark.options import SinkOptions, parse_sink_options
from oncelog.spark.versions import require_classic


class Sink(ForeachBatchSink[SinkOptions, LogTarget]):
    """Writes each micro-batch exactly once. Create it with `sink`; it can be pickled."""

    format_name = "oncelog"
    keeps_its_ledger = True

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(parse_sink_options(options, Use.FOREACH_BATCH))

    def columns(self, df: DataFrame) -> DataFrame:
        return schema.to_sink_columns(df, self.options.topic)

    def named_ledger(self) -> str | None:
        return self.options.znodes or self.options.path

    def open_target(self, known: LogTarget | None, _: ZnodeStore | None) -> LogTarget:
        log = open_log(self.options.path, self.options.znodes)
        return known if known is not None and known.log is log else LogTarget(log, self.options)

    def job(self, rows: DataFrame) -> Job:
        return partial(jvm_tasks.run_job, rows)

    def progress(self, target: LogTarget, batch: BatchContext) -> GroupProgress[Any]:
        return group_offsets.of_batch(batch, self.options.group_id or "", target.log.cluster_id)


@checked
def sink(**options: Any) -> Sink:
    """An exactly-once sink for ``writeStream.foreachBatch``.

    Args:
        options: the sink's options under their documented names: path, topic, transactionalIdPrefix, groupId, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session; use ``writeStream.format("oncelog")``, which writes the same rows.

    Example:
        query = (df.writeStream.foreachBatch(oncelog.spark.sink(path="/data/log", topic="delayed"))
                 .option("checkpointLocation", "/data/ck").start())
    """
    require_classic(Sink.format_name)
    return Sink(options)
