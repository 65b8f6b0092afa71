"""One pipeline under all kills: start it, let it work, kill it, start it again; at last let it catch up and stop it.

A run waits most of the time, on one thing after the other: the JVM, then one Python process of Spark's after the next.
So both pipelines run beside each other, each with a log and a loader of its own: two cores can just about carry it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flights import steps
from flights.folders import Folders
from flights.kills import KILLS, Kill
from flights.processes import Program, Programs
from flights.progress import Lane
from flights.reading import FolderReader, OutputReader, TopicReader
from flights.steps import Steps
from flights.story import KillStory, Story


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One of the two pipelines.

    Attributes:
        name: of the pipeline.
        module: the program of its query.
        moment: where a kill hits that program.
        reader: of its output.
        batches_between_kills: a restarted query writes so many before it may be killed again, so that every kill finds
            it at work.
    """

    name: str
    module: str
    moment: Callable[[Kill], str]
    reader: Callable[[Folders], OutputReader]
    batches_between_kills: int = 2


ONCELOG = Pipeline("oncelog", "flights.query", lambda kill: kill.oncelog, TopicReader)
PARQUET = Pipeline("parquet", "flights.peer", lambda kill: kill.parquet, FolderReader)


async def run(pipeline: Pipeline, folders: Folders, lane: Lane) -> Story:
    """Run a pipeline under all kills, until it has read all flights.

    Raises:
        ProgramFailedError: a program failed otherwise than it was made to, or did not get on.
    """
    folders.root.mkdir(parents=True)
    with (
        Programs(folders.root) as programs,
        steps.beginning(pipeline.name, folders, programs, pipeline.reader, lane) as begun,
    ):
        return await _Experiment(pipeline, begun).run()


class _Experiment:
    """The kills of a run, and what follows them."""

    def __init__(self, pipeline: Pipeline, begun: Steps) -> None:
        self._pipeline = pipeline
        self._steps = begun
        self._folders = begun.folders
        self._watcher = begun.watcher

    async def run(self) -> Story:
        loading = self._steps.start_loader()
        running = self._start_query(1, KILLS[0])
        await self._steps.batches(running, -1, self._pipeline.batches_between_kills)
        kills = []
        for attempt, (kill, next_kill) in enumerate(zip(KILLS, (*KILLS[1:], None), strict=True), start=1):
            killed_s, batch = await self._kill(running, attempt, kill)
            seen = self._watcher.sightings.newest_batch
            running = self._start_query(attempt + 1, next_kill)
            recovered_s = await self._steps.batches(running, seen, 1)
            ready_s = self._watcher.since_start_s(self._folders.ready(attempt + 1).stat().st_mtime)
            kills.append(KillStory(kill.moment, killed_s, batch, ready_s - killed_s, recovered_s - killed_s))
            self._steps.lane.tells_kill(kills[-1])
            if next_kill:
                await self._steps.batches(running, seen, self._pipeline.batches_between_kills)
        await self._steps.catch_up(loading, running)
        return self._steps.story(kills)

    def _start_query(self, attempt: int, kill: Kill | None) -> Program:
        self._steps.lane.does("Spark starts")
        self._folders.mark(attempt).touch()
        moment = [self._pipeline.moment(kill)] if kill else []
        return self._steps.start(f"query-{attempt}", self._pipeline.module, str(attempt), *moment)

    async def _kill(self, running: Program, attempt: int, kill: Kill) -> tuple[float, int]:
        """Have the process die at its moment; returns when that was, and the batch that was in flight."""
        self._steps.lane.does(f"kill -9 at {kill.moment}")
        mark = self._folders.mark(attempt)
        mark.unlink()
        await self._steps.until(lambda: running.was_killed, f"reach the moment {kill.moment!r}", running)
        running.end_session()
        if not mark.exists():
            raise running.failed("was killed by someone else")
        await self._steps.two_looks()
        return self._watcher.since_start_s(mark.stat().st_mtime), self._folders.batch_in_flight() or 0
