"""Exactly-once reads and writes of Apache Kafka for PySpark: `format("oncelog-kafka")`; `sink()` for foreachBatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked
from oncelog_kafka.packaging import configure, jars

if TYPE_CHECKING:
    from oncelog_kafka.batch_sink import KafkaSink

__all__ = ["configure", "jars", "sink"]

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
        from pyspark.sql import is_remote  # here, because the command line works without PySpark

    from oncelog.spark.versions import check_version, refuse_connect

    check_version()
    refuse_connect(FORMAT_NAME, is_connect=is_remote())
    from oncelog_kafka.batch_sink import KafkaSink

    return KafkaSink(options)
