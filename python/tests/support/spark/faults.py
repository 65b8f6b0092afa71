"""Faults in Spark's own processes: tasks that fail, and Python workers that are killed at a crash point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from oncelog.crash_points import VARIABLE, CrashPoint
from oncelog.spark.data_source import OncelogDataSource

MapBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class FailedOnPurposeError(Exception):
    """What a task dies of here."""


def failing_once(folder: Path) -> MapBatches:
    """A function for `mapInArrow` that passes its rows on; each task fails behind its last row at its first try."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        mark = folder / f"failed-{task.partitionId()}"
        if not mark.exists():
            mark.touch()
            raise FailedOnPurposeError("a task fails on purpose, once")

    return pass_on


def failing_always(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow`: each task fails behind its last row, whenever it is tried."""
    yield from batches
    raise FailedOnPurposeError("a task fails on purpose")


class ArmedDataSource(OncelogDataSource):
    """The data source, for workers of their own."""

    @classmethod
    def name(cls) -> str:
        return "oncelog-armed"


@contextmanager
def armed(spark: SparkSession, point: CrashPoint, mark: Path) -> Iterator[str | None]:
    """Have the Python workers of functions that are made in this block killed at `point`, once.

    Spark starts other workers for functions of another environment.
    """
    environment = spark.sparkContext.environment
    environment[VARIABLE] = f"{point}:0:{mark}"
    try:
        yield None
    finally:
        del environment[VARIABLE]


@contextmanager
def armed_source(spark: SparkSession, point: CrashPoint, mark: Path) -> Iterator[str]:
    """The same for the workers of the data source; gives the format's name to use in the block."""
    with armed(spark, point, mark):
        spark.dataSource.register(ArmedDataSource)
        yield ArmedDataSource.name()
