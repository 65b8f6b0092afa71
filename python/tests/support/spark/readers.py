"""The two readers of ``format("oncelog")``: one session runs both, by a setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.harness.parts import missing_part
from tests.support.harness.variants import variants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = ("jvm", "python")
SWITCH = "spark.oncelog.jvmReader"


def reading_by(spark: SparkSession, name: str) -> AbstractContextManager[None]:
    """Have what is planned in this block read by one of `READERS`."""
    return switched(spark, SWITCH, name)


@pytest.fixture(params=variants(*READERS))
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Runs a test once with each reader."""
    with reading_by(spark, request.param):
        yield request.param


@contextmanager
def switched(spark: SparkSession, switch: str, name: str) -> Iterator[None]:
    """Set the session's `switch` for this block to whether the JVM does the work, as `name` says."""
    if name == "jvm":
        require_jar()
    spark.conf.set(switch, name == "jvm")
    try:
        yield
    finally:
        spark.conf.unset(switch)


def require_jar() -> None:
    """Skip the running test unless oncelog's jar for Spark is built."""
    from oncelog.spark.packaging import JAR

    if not JAR.is_file():
        missing_part("oncelog's jar for Spark", "make shims")
