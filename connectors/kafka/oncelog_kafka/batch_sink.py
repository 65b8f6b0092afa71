"""The exactly-once Kafka sink: ``writeStream.foreachBatch(oncelog_kafka.sink(...))``, for any plan and source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.ledger.progress import GroupProgress
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog_kafka import columns, connections, source_offsets
from oncelog_kafka.data_plane import SparkJob
from oncelog_kafka.options import SinkOptions
from oncelog_kafka.target import Job, KafkaTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class KafkaSink(ForeachBatchSink[SinkOptions, KafkaTarget]):
    """Writes each micro-batch it is called with, exactly once. Made by `oncelog_kafka.sink`; pickles."""

    def _columns(self, df: DataFrame) -> DataFrame:
        return columns.to_sink_columns(df, self.options.topic)

    def _opened(self, known: KafkaTarget | None) -> KafkaTarget:
        if known is not None:
            return known
        store = connections.open_store(self.options.znodes)
        return KafkaTarget(store, connections.open_brokers(self.options.admin), self.options)

    def _job(self, rows: DataFrame) -> Job:
        return SparkJob(rows)

    def _progress(self, target: KafkaTarget, batch: BatchContext) -> GroupProgress[Any]:
        return source_offsets.of_batch(batch, self.options.group_id or "")
