"""The two readers of ``format("oncelog")``: one session runs both, by a setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.harness.parts import missing_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = ("jvm", "python")
SWITCH = "spark.oncelog.jvmReader"


@contextmanager
def reading_by(spark: SparkSession, name: str) -> Iterator[None]:
    """Have what is planned in this block read by one of `READERS`."""
    if name == "jvm":
        require_jar()
    spark.conf.set(SWITCH, name == "jvm")
    try:
        yield
    finally:
        spark.conf.unset(SWITCH)


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Runs a test once with each reader."""
    with reading_by(spark, request.param):
        yield request.param


def require_jar() -> None:
    """Skip the running test unless oncelog's jar for Spark is built."""
    from oncelog.spark.packaging import JAR

    if not JAR.is_file():
        missing_part("oncelog's jar for Spark", "make shims")
