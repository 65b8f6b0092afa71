"""The twin that is killed: the same query as people write it today, with foreachBatch appending to parquet files.

Run as ``python -m flights.peer <folders> <attempt> [<moment>]``.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from glob import glob
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from flights import kills, pipeline
from flights.beside import beside
from flights.folders import Folders
from flights.kills import ParquetMoment
from oncelog.crash_points import CrashPoint

UNARMED_PAUSE_S = 0.02

FILES_OF_MOMENT = {
    ParquetMoment.WRITING: "_temporary/0/_temporary/*/part-*",
    ParquetMoment.HANDED_OVER: "_temporary/0/task_*/part-*",
    ParquetMoment.PUBLISHING: "part-*",
}
"""Where a new file appears at the moment: Spark has a task write it, hand it to the job, and the job publish it."""


class Trap:
    """Kills this process at a moment of its batch, once its mark is gone."""

    def __init__(self, moment: ParquetMoment | None, mark: Path, output: Path) -> None:
        self._moment = moment
        self._mark = mark
        self._output = output

    def reach(self, moment: ParquetMoment) -> None:
        """Called by the code at `moment`."""
        if moment is self._moment:
            kills.die_once(self._mark)

    def watching_files(self) -> AbstractContextManager[None]:
        """Notice the moments that pass inside Spark by the files that appear."""
        pattern = FILES_OF_MOMENT.get(self._moment) if self._moment else None
        return nullcontext() if pattern is None else beside(lambda is_over: self._watch(pattern, is_over))

    def _watch(self, pattern: str, is_over: threading.Event) -> None:
        before = self._files(pattern)
        while not is_over.is_set():
            if self._mark.exists():
                time.sleep(UNARMED_PAUSE_S)
            elif self._files(pattern) - before:
                kills.die_once(self._mark)

    def _files(self, pattern: str) -> set[str]:
        # `Path.glob` takes longer than Spark takes to publish the files of a batch.
        return set(glob(pattern, root_dir=self._output))  # noqa: PTH207


def batch_writer(output: Path, trap: Trap) -> pipeline.WriteBatch:
    """A foreachBatch function that appends a batch to the folder `output`."""

    def write_batch(late: DataFrame, batch_id: int) -> None:
        with trap.watching_files():
            late.withColumn("batch", lit(batch_id)).write.mode("append").parquet(str(output))
        trap.reach(ParquetMoment.WRITTEN)

    return write_batch


def main(argument: str, attempt: str, moment: str = "") -> None:
    folders = Folders.given(argument)
    mark = folders.mark(int(attempt))
    if moment in set(CrashPoint):
        kills.arm_crash_point(CrashPoint(moment), mark)
    own_moment = ParquetMoment(moment) if moment in set(ParquetMoment) else None
    pipeline.run(folders, int(attempt), batch_writer(folders.parquet, Trap(own_moment, mark, folders.parquet)))


if __name__ == "__main__":
    main(*sys.argv[1:])
