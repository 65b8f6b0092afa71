"""Exactly-once reads and writes of Apache Kafka for PySpark: `format("oncelog-kafka")`; `sink()` for foreachBatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked
from oncelog_kafka.packaging import configure, jars

if TYPE_CHECKING:
    from oncelog_kafka.sinks.batch_sink import KafkaSink

__all__ = ["configure", "jars", "sink", "whole_ends"]

FORMAT_NAME = "oncelog-kafka"


@checked
def sink(**options: Any) -> KafkaSink:
    """An exactly-once Kafka sink for ``writeStream.foreachBatch``.

    Args:
        options: the sink's options under their documented names: ``kafka.bootstrap.servers``, topic,
            transactionalIdPrefix, groupId, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, forbidden, or contradicts another one.
        UsageError: this is a Spark Connect session; use ``writeStream.format("oncelog-kafka")``, which writes the same.

    Example:
        options = {"kafka.bootstrap.servers": "host:9092", "topic": "delayed", "transactionalIdPrefix": "delayed"}
        query = (df.writeStream.foreachBatch(oncelog_kafka.sink(**options))
                 .option("checkpointLocation", "/data/ck").start())
    """
    with extras("spark,kafka", part="oncelog_kafka"):
        from oncelog.spark.versions import require_classic  # here, because the command line works without PySpark

    require_classic(FORMAT_NAME)
    from oncelog_kafka.sinks.batch_sink import KafkaSink

    return KafkaSink(options)


@checked
def whole_ends(stable: Mapping[Any, int], starts: Mapping[Any, int], **options: Any) -> dict[Any, int]:
    """Up to where a consumer without Spark may use records, so that it has all of a sink's batch or nothing.

    Args:
        stable: the last stable offset of each partition that is read; a partition is anything with a topic and a
            partition, such as kafka-python's. Ask the brokers for them before each call: only then the ledger has every
            batch of which a record may be visible.
        starts: the offset of the next record to be used, where it is not 0.
        options: ``kafka.bootstrap.servers`` and other settings of the client; the sinks' ledgerTopic or znodes.

    Returns:
        the ends of the same partitions, not below the starts; records at or behind them belong to a later call.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: a partition is none, there is no ledger, or a sink of an older oncelog wrote to it.
        UnknownTopicError: there is no such topic.
        BrokerUnavailableError, BrokerAccessError: the brokers do not answer, or do not allow this.

    Example:
        stable = consumer.end_offsets(partitions)  # a KafkaConsumer with isolation_level="read_committed"
        ends = oncelog_kafka.whole_ends(stable, {}, **{"kafka.bootstrap.servers": "host:9092"})
    """
    with extras("kafka", part="oncelog_kafka"):
        from oncelog_kafka.whole_batches import whole_reads

    return whole_reads.whole_ends(stable, starts, options)
