"""Faults in Spark's own processes: tasks that fail, and Python workers that are killed at a crash point."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from oncelog.crash_points import VARIABLE, CrashPoint
from oncelog.runtime import Log
from oncelog.spark.data_source import OncelogDataSource

MapBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
PATIENCE_S = 120

TASK = "task of the row"
"""A column."""


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


def killing_executor_once(folder: Path) -> MapBatches:
    """A function for `mapInArrow` that passes its rows on and, once, kills its executor in the middle of some.

    Before that, it leaves the file `killed`.
    """
    mark = folder / "killed"

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if half and not mark.exists():
                mark.write_text(str(executor := _executor()))
                os.kill(executor, signal.SIGKILL)
                time.sleep(PATIENCE_S)  # a Python worker outlives its executor for a moment
            yield batch.slice(half)

    return pass_on


def killing_executor_late(folder: Path) -> MapBatches:
    """A function for `mapInArrow` that passes its rows on; once, the task of partition 2 kills its executor instead.

    By then an executor with one core has finished a task of partition 0 or 1. With the executor the files of its
    shuffle are lost, so Spark runs the rest of this stage again, as another attempt of it. Each task leaves a file. The
    session needs `awaited_executors`: otherwise all these files may be those of the other executor.
    """
    mark = folder / "killed"

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        (folder / f"run-{batch_id}-{task.partitionId()}-{task.attemptNumber()}-{task.taskAttemptId()}").touch()
        for batch in batches:
            if task.partitionId() == 2 and batch.num_rows and not mark.exists():
                mark.touch()
                os.kill(_executor(), signal.SIGKILL)
                time.sleep(PATIENCE_S)  # a Python worker outlives its executor for a moment
            yield batch

    return pass_on


def shuffled(rows: DataFrame, tasks: int, *, drawn: bool = False) -> DataFrame:
    """Give rows to that many tasks by a shuffle.

    Args:
        rows: of a query.
        tasks: how many.
        drawn: whether the task of a row is drawn by lot: a map task that runs again draws anew.
    """
    if not drawn:
        return rows.repartition(tasks)
    schema = StructType([*rows.schema.fields, StructField(TASK, IntegerType())])
    return rows.mapInArrow(_drawing(tasks), schema).repartition(tasks, TASK).drop(TASK)


def _drawing(tasks: int) -> MapBatches:
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lots = pa.array([lot % tasks for lot in os.urandom(batch.num_rows)], pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, lots], [*batch.schema.names, TASK])

    return draw


def check_stage_ran_again(folder: Path) -> None:
    """Check that `killing_executor_late` made Spark run a part of a stage again: there, attempts count from 0 again."""
    runs = Counter(tuple(path.name.split("-")[1:4]) for path in folder.glob("run-*"))
    again = {batch_id for (batch_id, _, _), count in runs.items() if count > 1}
    assert again, f"no task began anew: {runs}"
    assert any(runs[batch_id, partition, "0"] == 1 for batch_id in again for partition in "01"), f"none kept: {runs}"


def _executor() -> int:
    """The process above this one that is Spark's executor."""
    process = os.getppid()
    while EXECUTOR not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def stalling_at_first(folder: Path) -> MapBatches:
    """A function for `mapInArrow` that passes its rows on; the first attempt of a task with `slow` rows then stalls.

    It stalls behind its last row, so that its twin in the sink has written what it got. Attempts leave files.
    """

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_slow = False
        for batch in batches:
            is_slow = is_slow or any(value.as_py().startswith(b"slow") for value in batch.column("value"))
            yield batch
        if not is_slow:
            return
        task = TaskContext.get()
        assert task is not None
        (folder / f"attempt-{task.taskAttemptId()}").touch()
        stalls_until = time.monotonic() + PATIENCE_S
        while len(list(folder.glob("attempt-*"))) < 2 and time.monotonic() < stalls_until:
            time.sleep(0.05)
        if task.attemptNumber() == 0:
            time.sleep(PATIENCE_S)  # Spark kills it, when the other attempt is done

    return pass_on


FAULTS: Mapping[str, Callable[[Path], MapBatches]] = {
    "killed": killing_executor_once,
    "killed late": killing_executor_late,
    "stalled": stalling_at_first,
}
"""What programs on a cluster take by name, and a folder for it."""


def executors_below(folder: Path) -> list[int]:
    """The executors of a cluster whose workers have their files in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # no process, or one that has ended
            if EXECUTOR in (entry / "cmdline").read_bytes() and (entry / "cwd").resolve().is_relative_to(folder):
                found.append(int(entry.name))
    return found


def passed_on(log: Log, point: CrashPoint) -> CrashPoint:
    """The point, or the one that a batch passes instead on the log's store.

    Where steps are dear, the step that decides a batch appends and stages it, too.
    """
    is_joined = log.services.store.joins_steps and point in {CrashPoint.ROUND_APPENDED, CrashPoint.ROUND_STAGED}
    return CrashPoint.ROUND_APPEND if is_joined else point


class ArmedDataSource(OncelogDataSource):
    """The data source, for workers of their own."""

    @classmethod
    def name(cls) -> str:
        return "oncelog-armed"


@contextmanager
def armed(spark: SparkSession, point: StrEnum, mark: Path) -> Iterator[str | None]:
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
