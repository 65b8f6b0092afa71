"""Spark for programs that live for seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog.spark
from tests.support.spark import spark_home
from tests.support.spark.releases import RELEASE


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


def run_while_watched(query: StreamingQuery) -> None:
    """Wait for the query's end; what it failed with is raised. Ends too when whoever started this program is gone."""
    parent = os.getppid()
    while query.isActive and os.getppid() == parent:
        time.sleep(0.1)
    if query.isActive:
        query.stop()
    problem = query.exception()
    if problem is not None:
        raise problem
