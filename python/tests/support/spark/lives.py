"""A query in programs of its own, which tests kill again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from oncelog.crash_points import CrashPoint
from tests.support.harness.waiting import until
from tests.support.spark.processes import Program, start_job
from tests.support.spark.queries import PATIENCE_S

OF_A_WALK = 2
"""Points that one walk passes: it starts Spark at each, and once more to recover."""


def walks(points: Sequence[str]) -> list[Any]:
    """A query's crash points as parameters, a few at a time: one of the walks can be a shard's."""
    return [
        pytest.param(points[at : at + OF_A_WALK], id=f"from {points[at]}") for at in range(0, len(points), OF_A_WALK)
    ]


class Lives:
    """The lives of a query.

    Args:
        folder: of its files; the subfolder `in` is made for what it reads.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._program: Program | None = None
        self._lives = 0
        (folder / "in").mkdir()

    @property
    def mark(self) -> Path:
        """While it exists, the crash point is passed unharmed."""
        return self.folder / f"{self._lives}.mark"

    def live(self, point: str) -> Program:
        """Begin a life that passes the point unharmed until `die`."""
        raise NotImplementedError

    def write(self) -> None:
        """One more batch."""
        raise NotImplementedError

    def recover(self) -> None:
        """Wait until everything that was written is there."""
        raise NotImplementedError

    def found(self) -> object:
        """What a reader sees now."""
        raise NotImplementedError

    def walk(self, points: Iterable[str], expected: Callable[[str], object]) -> None:
        """Be killed at each point, where a reader must then see what is expected, and recover."""
        self.write()
        for point in points:
            self.die(point)
            assert self.found() == expected(point), point
        self.live(CrashPoint.SINK_DONE)
        self.recover()

    def die(self, point: str) -> None:
        """Recover, and be killed at the point in the next batch."""
        program = self.live(point)
        self.recover()
        self.mark.unlink()
        self.write()
        program.wait_killed()

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()

    def wait_until(self, is_reached: Callable[[], object]) -> None:
        """Wait, while the query lives."""

        def is_reached_alive() -> bool:
            assert self._program is not None
            self._program.check_runs()
            return bool(is_reached())

        until(is_reached_alive, within_s=PATIENCE_S)

    def put(self, number: int, text: str) -> None:
        """A file for the query to read, which is there whole or not at all."""
        hidden = self.folder / ".hidden"
        hidden.write_text(text)
        hidden.rename(self.folder / "in" / f"{number:05d}.json")

    def _copy(self, into: str, sink: Mapping[str, Any], point: str, points: type[StrEnum], **more: Any) -> Program:
        """Start this life's program, which copies what `put` makes; see `rows_copier`."""
        named = f"{points.__module__}:{points.__name__}"
        settings = {"into": into, "sink": sink, "source": str(self.folder / "in"), "points": named, **more}
        return self._start("rows_copier", settings, point)

    def _start(
        self, job: str, settings: Mapping[str, Any], point: str | None, variables: Mapping[str, str] | None = None
    ) -> Program:
        """Start the program of this life."""
        own = {"checkpoint": str(self.folder / "checkpoint"), "crash_point": point, "mark": str(self.mark)}
        self._program = start_job(job, {**settings, **own}, self.folder, f"life-{self._lives}", variables)
        return self._program
