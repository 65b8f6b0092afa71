"""What one sees while the example runs: its phases, the kills as they come, and how far the rows are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from flights.story import KillStory


class Progress:
    """The terminal. Without one (in a file or a pipe) only the finished lines appear.

    Attributes:
        phases: how long each took, in seconds.
    """

    def __init__(self, console: Console, flights: int, late: int) -> None:
        self.phases: dict[str, float] = {}
        self._console = console
        self._bars = Bars(
            TextColumn("  {task.description:<28}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._totals = {"flights loaded": flights, "late departures seen": late}
        self._doing = self._bars.add_task("", total=None, start=False, visible=False)
        self._tasks = [self._bars.add_task(name, total=total, visible=False) for name, total in self._totals.items()]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the job; says how long it took."""
        self._console.print(f"[bold]{name}[/bold]")
        for task in self._tasks:
            self._bars.reset(task, visible=True)
        started_s = time.monotonic()
        yield
        self.phases[name] = time.monotonic() - started_s
        self._console.print(f"  done in {self.phases[name]:.1f} s", style="dim")

    def does(self, what: str) -> None:
        """What is going on now."""
        self._bars.update(self._doing, description=what, visible=True)

    def counts(self, loaded: int, seen: int) -> None:
        """How far the loader, and the reader of the output, are."""
        for task, count in zip(self._tasks, (loaded, seen), strict=True):
            self._bars.update(task, completed=count)

    def tells_kill(self, story: KillStory) -> None:
        """Leave a line about a kill from which the query has recovered."""
        self._console.print(
            f"  [dim]{story.at_s:6.1f} s[/dim]  kill -9 at [bold]{story.kill.moment}[/bold], batch {story.batch}: "
            f"a new batch {story.recovered_s:.1f} s later"
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
