"""What one sees while the example runs: its phases, the kills as they come, and how far each pipeline is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from flights.story import KillStory


class Lane:
    """The part of the display that belongs to one pipeline. Made by `Progress.lane`."""

    def __init__(self, console: Console, bars: Bars, name: str, flights: int, late: int) -> None:
        self._console = console
        self._bars = bars
        self._name = name
        self._loaded = bars.add_task(f"{name}: flights loaded", total=flights, doing="")
        self._seen = bars.add_task(f"{name}: late departures seen", total=late, doing="")

    def does(self, what: str) -> None:
        """What is going on now."""
        self._bars.update(self._loaded, doing=what)

    def counts(self, loaded: int, seen: int) -> None:
        """How far the loader, and the reader of the output, are."""
        self._bars.update(self._loaded, completed=loaded)
        self._bars.update(self._seen, completed=seen)

    def tells_kill(self, story: KillStory) -> None:
        """Leave a line about a kill from which the query has recovered."""
        self._console.print(
            f"  [dim]{story.at_s:5.1f} s[/]  {self._name:<8} kill -9: [bold]{story.kill}[/], "
            f"batch {story.batch}: back in {story.back_s:.1f} s, new batch in {story.recovered_s:.1f} s",
            highlight=False,
            soft_wrap=True,
        )

    @property
    def tasks(self) -> tuple[TaskID, TaskID]:
        return self._loaded, self._seen


class Progress:
    """The terminal. Without one (in a file or a pipe) only the lines that stay appear.

    Attributes:
        phases: how long each took, in seconds.
    """

    def __init__(self, console: Console) -> None:
        self.phases: dict[str, float] = {}
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}", style="dim", markup=False),
            console=console,
            transient=True,
            expand=True,
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the job; says how long it took."""
        self._console.print(f"[bold]{name}[/]", highlight=False)
        started_s = time.monotonic()
        yield
        self.phases[name] = time.monotonic() - started_s
        self._console.print(f"  [dim]done in {self.phases[name]:.1f} s[/]", highlight=False)

    @contextmanager
    def lane(self, name: str, flights: int, late: int) -> Iterator[Lane]:
        """The bars of a pipeline, while it runs.

        Args:
            name: of the pipeline.
            flights: rows that the loader will write.
            late: rows that the output will hold.
        """
        lane = Lane(self._console, self._bars, name, flights, late)
        try:
            yield lane
        finally:
            for task in lane.tasks:
                self._bars.remove_task(task)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
