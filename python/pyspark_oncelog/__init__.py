"""Makes ``format("oncelog")`` known to Spark, which looks for a DefaultSource in modules named ``pyspark_*``."""

from __future__ import annotations

from oncelog.spark.data_source import OncelogDataSource


class DefaultSource(OncelogDataSource):
    """The data source under the name that Spark looks for."""


__all__ = ["DefaultSource"]
