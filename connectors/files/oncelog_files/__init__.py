"""Exactly-once writes of micro-batches as files: `sink()` for foreachBatch, and `read()` for whole batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncelog_files.batch_sink import FilesSink

__all__ = ["read", "sink"]


@checked
def sink(**options: Any) -> FilesSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` that writes files into a folder.

    Args:
        options: the sink's options under their documented names: path, format, partitionBy, transactionalIdPrefix, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog_files.sink(path="/data/flights", partitionBy="origin", transactionalIdPrefix="flights")
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    with extras("spark", part="oncelog_files"):
        from oncelog.spark.versions import require_classic

    require_classic()
    from oncelog_files.batch_sink import FilesSink

    return FilesSink(options)


@checked
def read(spark: Any, path: str, *, prefix: str | None = None, **options: Any) -> DataFrame:
    """The rows of whole batches: of a batch whose files become visible just now, all of them or none.

    Args:
        spark: a SparkSession that is not of Spark Connect.
        path: of the sink.
        prefix: of the sink, with ``.<sinkName>`` if it has one; the batches of all sinks of the folder by default.
        options: for Spark's reader of the files' format, such as ``schema`` or ``mergeSchema``.

    Raises:
        UsageError: no batch is there yet, or the batches have several formats; or `spark` is no such session.
        FileUnavailableError: the folder cannot be read.

    Example:
        flights = oncelog_files.read(spark, "/data/flights")
    """
    with extras("spark", part="oncelog_files"):
        from oncelog_files.whole_batches import read_whole_batches

    return read_whole_batches(spark, path, prefix, options)
