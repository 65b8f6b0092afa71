"""The Kafka sink for ``writeStream.foreachBatch(oncelog_kafka.sink(...))``, with any plan and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from oncelog.batches.offsets import GroupProgress
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog_kafka import FORMAT_NAME, connections
from oncelog_kafka.options import sink_options
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC, SinkOptions
from oncelog_kafka.sinks import columns, source_offsets
from oncelog_kafka.sinks.data_plane import SparkJob, context_of
from oncelog_kafka.sinks.jobs import Job
from oncelog_kafka.sinks.target import KafkaTarget


class KafkaSink(ForeachBatchSink[SinkOptions, KafkaTarget]):
    """Writes each micro-batch exactly once. Create it with `oncelog_kafka.sink`; it can be pickled."""

    format_name = FORMAT_NAME

    @checked
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(sink_options.parse(options))

    def context(self, df: DataFrame, batch_id: int) -> BatchContext:
        return context_of(df, batch_id, with_clusters=self.options.group_id is not None)

    def columns(self, df: DataFrame) -> DataFrame:
        return columns.to_sink_columns(df, self.options.topic)

    def named_ledger(self) -> str | None:
        topic = self.options.ledger_topic
        return self.options.znodes or (None if topic == DEFAULT_LEDGER_TOPIC else topic)

    def open_target(self, known: KafkaTarget | None, ledger: ZnodeStore | None) -> KafkaTarget:
        if known is not None:
            return known
        store = ledger or connections.open_store(self.options)
        return KafkaTarget(store, connections.open_brokers(self.options.admin), self.options)

    def job(self, rows: DataFrame) -> Job:
        return SparkJob(rows)

    def progress(self, target: KafkaTarget, batch: BatchContext) -> GroupProgress[Any]:
        return source_offsets.of_batch(batch, self.options.group_id or "", target.cluster_id)
