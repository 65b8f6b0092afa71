"""Copies a topic through both doors at once, on executors that are killed in the middle; goes on until a file appears.

Of each door one task kills its own executor, once, behind the first half of some rows, and leaves a file first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import oncelog
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import DOORS, into, stream

EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
PATIENCE_S = 60


def killing_executor_once(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that passes its rows on, and kills the executor in the middle of the first ones."""

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


def _executor() -> int:
    """The process above this one that is Spark's executor."""
    process = os.getppid()
    while EXECUTOR not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def main(settings: dict[str, Any]) -> None:
    folder, stop = Path(settings["folder"]), Path(settings["stop"])
    with (
        oncelog.open(**settings["log"]) as log,
        spark_session(settings["master"], settings["spark"]) as spark,
    ):
        queries = []
        for door in DOORS:
            rows = stream(spark, log).select("key", "value", "partition")
            fatal = rows.mapInArrow(killing_executor_once(folder / f"{door}.killed"), rows.schema)
            writer = into(fatal, log, door, topic=door, transactionalIdPrefix=f"to.{door}")
            checkpointed = writer.option("checkpointLocation", str(folder / f"checkpoint-{door}"))
            queries.append(checkpointed.trigger(processingTime="200 milliseconds").start())
        while all(query.isActive for query in queries) and not stop.exists():
            time.sleep(0.1)
        for query in queries:
            query.stop()
            if (problem := query.exception()) is not None:
                raise problem


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
