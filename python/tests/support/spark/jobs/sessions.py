"""Spark for programs that live for seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog.spark
from tests.support.spark import spark_home
from tests.support.spark.releases import RELEASE

PARENT = os.getppid()
"""Whoever started this program, and may be gone before the first query runs."""


@contextmanager
def spark_session(
    master: str = "local[2,4]", settings: Mapping[str, str] | None = None, jvm_options: str | None = None
) -> Iterator[SparkSession]:
    """A session with little around it; Spark's scratch space is in the working folder."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", jvm_options or spark_home.jvm_options())
        .config("spark.local.dir", "spark")
        .config("spark.sql.warehouse.dir", "spark/warehouse")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if RELEASE < (4, 2):  # streams need the jar
        builder = oncelog.spark.configure(builder)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def run_while_watched(*queries: StreamingQuery, stop: str | None = None) -> None:
    """Wait for the end of all queries, or of one by an error, which is raised.

    They are ended when a file appears, if one is named, and when whoever started this program is gone.
    """
    while any(query.isActive for query in queries) and not any(query.exception() for query in queries):
        if os.getppid() != PARENT or (stop and Path(stop).exists()):
            break
        time.sleep(0.1)
    for query in queries:
        query.stop()
    for query in queries:
        if (problem := query.exception()) is not None:
            raise problem
