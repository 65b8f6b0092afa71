"""Settings of a session that a job of a sink needs, for as long as the job is planned and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import SparkSession


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Have a session, which is the query's own, use these settings for the time of the block."""
    conf = spark.conf
    before: dict[str, Any] = {name: conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            if found is None:
                conf.unset(name)
            else:
                conf.set(name, found)
