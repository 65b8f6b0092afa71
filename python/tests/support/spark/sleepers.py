"""A sink by name whose commit is stopped (SIGSTOP) at a point. Workers import its classes from here."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog.crash_points import CrashPoint, arm
from oncelog.spark.data_source import OncelogDataSource
from oncelog.spark.writer import StreamWriter

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
