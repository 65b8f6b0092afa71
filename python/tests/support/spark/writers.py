"""The two kinds of tasks of the sinks of a log: one session runs both, by a setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

import oncelog.spark
from oncelog.spark.jvm_tasks import SWITCH
from tests.support.harness.variants import variants
from tests.support.spark.readers import require_jar, switched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = ("jvm", "python")


def jars_of(name: str) -> dict[str, str]:
    """The settings with which a new session has one of `WRITERS`."""
    if name != "jvm":
        return {}
    require_jar()
    return {"spark.jars": oncelog.spark.jars()}


def writing_by(spark: SparkSession, name: str) -> AbstractContextManager[None]:
    """Have what is written in this block written by one of `WRITERS`."""
    return switched(spark, SWITCH, name)


@pytest.fixture(params=variants(*WRITERS))
def writer(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Runs a test once with each kind of tasks."""
    with writing_by(spark, request.param):
        yield request.param
