"""Copies a topic through both doors on a cluster that starts a second attempt of a task that is slow."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import oncelog
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import copy, stream

PATIENCE_S = 120


def slow_at_first(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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


def main(settings: dict[str, Any]) -> None:
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
    }
    with oncelog.open(**settings["log"]) as log, spark_session(settings["master"], speculation) as spark:
        for door, topic in settings["topics"].items():
            folder = Path(settings["folder"], door)
            folder.mkdir()
            rows = stream(spark, log).select("value", "partition")
            slow = rows.mapInArrow(slow_at_first(folder), "value binary, partition int")
            copy(slow, log, door, folder / "checkpoint", topic=topic)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
