"""The Structured Streaming source and sinks. Needs the extra ``oncelog[spark]``.

``spark.readStream.format("oncelog")`` and ``df.writeStream.format("oncelog")`` need no registration: Spark finds the
module ``pyspark_oncelog``. `sink` is the main door for writing:
``df.writeStream.foreachBatch(oncelog.spark.sink(...))``. `configure` makes reads faster.
"""

from __future__ import annotations

from oncelog.spark.data_source import OncelogDataSource
from oncelog.spark.packaging import configure, jars
from oncelog.spark.sink import Sink, sink

__all__ = ["OncelogDataSource", "Sink", "configure", "jars", "sink"]
