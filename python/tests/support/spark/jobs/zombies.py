"""Two copying queries, one through each door, that are stopped (SIGSTOP) in the middle of a batch, and wake up later.

The process that comes to the point writes its id into the query's mark, and stops: this program for foreachBatch, the
worker that commits for the format. What the queries end with, once both are awake, goes into the file `outcome`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

import oncelog
from oncelog.crash_points import CrashPoint, arm
from oncelog.spark.data_source import OncelogDataSource
from oncelog.spark.writer import StreamWriter
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import into, stream

POINT = "point"
MARK = "mark"


def stop_once_at(point: CrashPoint, mark: Path) -> Callable[[str], None]:
    """An action that stops this process at `point`, unless the file `mark` exists."""

    def action(reached: str) -> None:
        if reached is not point:
            return
        try:
            with mark.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        # Sent to the process, another thread may take it, and this one runs on for a moment, into the store's lock.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    return action


class SleepyWriter(StreamWriter):
    """Commits like its parent, and falls asleep over it."""

    def __init__(self, parent: StreamWriter, point: str, mark: str) -> None:
        self.__dict__.update(parent.__dict__)
        self._action = (point, mark)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803 - Spark's name
        point, mark = self._action
        arm(stop_once_at(CrashPoint(point), Path(mark)))
        super().commit(messages, batchId)


class SleepyDataSource(OncelogDataSource):
    """The data source with two options more: where its writer falls asleep."""

    @classmethod
    def name(cls) -> str:
        return "oncelog-sleepy"

    def streamWriter(self, schema: StructType, overwrite: bool) -> SleepyWriter:  # noqa: N802 - Spark's name
        point, mark = self.options.pop(POINT), self.options.pop(MARK)
        writer = super().streamWriter(schema, overwrite)
        assert isinstance(writer, StreamWriter)
        return SleepyWriter(writer, point, mark)


def main(settings: dict[str, Any]) -> None:
    point, folder = settings[POINT], Path(settings["folder"])
    queries = {}
    with oncelog.open(**settings["log"]) as log, spark_session() as spark:
        spark.dataSource.register(SleepyDataSource)
        for door in ("oncelog", "foreachBatch"):  # the latter stops this very program
            mark = folder / f"{door}.mark"
            options = dict(settings["sinks"][door])
            if door == "oncelog":
                options |= {POINT: point, MARK: str(mark)}
            else:
                arm(stop_once_at(CrashPoint(point), mark))
            rows = stream(spark, log, **settings["sources"][door]).select("value", "partition")
            writer = into(rows, log, "oncelog-sleepy" if door == "oncelog" else door, **options)
            queries[door] = writer.option("checkpointLocation", settings["checkpoints"][door]).start()
            while not mark.exists():
                time.sleep(0.05)
        while any(query.isActive for query in queries.values()):
            time.sleep(0.05)
        outcome = {door: str(query.exception()) for door, query in queries.items()}
    (folder / "outcome").write_text(json.dumps(outcome))


if __name__ == "__main__":
    from tests.support.spark.jobs import zombies  # by the name with which workers find its classes

    zombies.main(json.loads(Path(sys.argv[1]).read_text()))
