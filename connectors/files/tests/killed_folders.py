"""A query into a folder that tests kill again and again, and the points at which they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from folder_worlds import BEFORE_THE_DECISION, BEHIND_THE_DECISION, visible
from oncelog.crash_points import CrashPoint
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.harness.waiting import until
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program
from tests.support.spark.staging import left_staging

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_PLACE = (FilesCrashPoint.SHOWN, FilesCrashPoint.PUBLISHED, FilesCrashPoint.REMOVED, CrashPoint.SINK_DONE)

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.out = folder / "out"
        self.written: list[tuple[int, str]] = []

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        return self._copy("oncelog_files:sink", self.sink(), point, FilesCrashPoint, spark=self.spark())

    def sink(self) -> dict[str, str]:
        """The options of the sink."""
        return {"path": str(self.out), "transactionalIdPrefix": "killed"}

    def spark(self) -> dict[str, str]:
        """Settings of the session."""
        return {}

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(self.is_clean)

    def is_clean(self) -> bool:
        return not left_staging(self.out)

    def found(self) -> list[tuple[Any, ...]]:
        return visible(self.out, "id", "value")
