"""Exactly-once reads and writes of Apache Kafka for PySpark: `format("oncelog-kafka")`; `sink()` for foreachBatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog_kafka.packaging import configure, jars

if TYPE_CHECKING:
    from oncelog_kafka.batch_sink import KafkaSink

__all__ = ["configure", "jars", "sink"]


def sink(**options: Any) -> KafkaSink:
    """An exactly-once Kafka sink for ``writeStream.foreachBatch``.

    Args:
        options: in Spark's spelling: ``kafka.bootstrap.servers``, znodes, topic, transactionalIdPrefix, groupId, ...

    Returns:
        a function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, forbidden, or contradicts another one.

    Example:
        options = {"kafka.bootstrap.servers": "host:9092", "znodes": "/data/ledger", "topic": "delayed"}
        query = (df.writeStream.foreachBatch(oncelog_kafka.sink(**options))
                 .option("checkpointLocation", "/data/ck").start())
    """
    from oncelog.spark.versions import check_version  # needs PySpark, which the command line does without

    check_version()
    from oncelog_kafka.batch_sink import KafkaSink

    return KafkaSink(options)
