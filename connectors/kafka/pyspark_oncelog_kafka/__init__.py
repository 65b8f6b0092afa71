"""Lets Spark find the Python half of ``format("oncelog-kafka")``: it looks for DefaultSources in ``pyspark_*``."""

from __future__ import annotations

from oncelog_kafka.data_source import KafkaDataSource


class DefaultSource(KafkaDataSource):
    """The data source, under the name that Spark looks for."""


__all__ = ["DefaultSource"]
