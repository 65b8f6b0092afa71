"""One pipeline under all kills: start it, let it work, kill it, start it again; at last let it catch up and stop it.

A run waits most of the time, on one thing after the other: the JVM, then one Python process of Spark's after the next.
So both pipelines run beside each other, each with a log and a loader of its own: two cores can just about carry it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import oncelog
from flights import loader
from flights.folders import DELAYED, FLIGHTS, Folders
from flights.kills import KILLS, Kill
from flights.processes import Program, Programs
from flights.progress import Lane
from flights.reading import FolderReader, OutputReader, TopicReader
from flights.story import KillStory, Story
from flights.watcher import Watcher

EXAMPLES = Path(__file__).parents[1]
PARTITIONS = 4

BATCHES_BETWEEN_KILLS = 2
"""A restarted query writes so many before it may be killed again, so that every kill finds it at work."""

PATIENCE_S = 180.0
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One of the two pipelines.

    Attributes:
        name: of the pipeline.
        module: the program of its query.
        moment: where a kill hits that program.
        reader: of its output.
    """

    name: str
    module: str
    moment: Callable[[Kill], str]
    reader: Callable[[Folders], OutputReader]


ONCELOG = Pipeline("oncelog", "flights.query", lambda kill: kill.oncelog, TopicReader)
PARQUET = Pipeline("parquet", "flights.peer", lambda kill: kill.parquet, FolderReader)


async def run(pipeline: Pipeline, folders: Folders, lane: Lane) -> Story:
    """Run a pipeline under all kills, until it has read all flights.

    Raises:
        ProgramFailedError: a program failed otherwise than it was made to, or did not get on.
    """
    folders.root.mkdir(parents=True)
    with oncelog.open(folders.log) as log:
        log.create_topic(FLIGHTS, partitions=PARTITIONS)
        log.create_topic(DELAYED, partitions=PARTITIONS)
    with (
        pipeline.reader(folders) as reader,
        Watcher(folders, reader, time.time()) as watcher,
        Programs(folders.root) as programs,
    ):
        return await _Experiment(pipeline, folders, programs, watcher, lane).run()


class _Experiment:
    """The steps of a run. Each waits until what it caused was seen from outside."""

    def __init__(self, pipeline: Pipeline, folders: Folders, programs: Programs, watcher: Watcher, lane: Lane) -> None:
        self._pipeline = pipeline
        self._folders = folders
        self._programs = programs
        self._watcher = watcher
        self._lane = lane
        paths = [str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    async def run(self) -> Story:
        loading = self._start("loader", "flights.loader")
        running = self._start_query(1, KILLS[0])
        await self._batches(running, -1, BATCHES_BETWEEN_KILLS)
        kills = []
        for attempt, (kill, next_kill) in enumerate(zip(KILLS, (*KILLS[1:], None), strict=True), start=1):
            killed_s, batch = await self._kill(running, attempt, kill)
            seen = self._watcher.sightings.newest_batch
            running = self._start_query(attempt + 1, next_kill)
            recovered_s = await self._batches(running, seen, 1)
            ready_s = self._watcher.since_start_s(self._folders.ready(attempt + 1).stat().st_mtime)
            kills.append(KillStory(kill, killed_s, batch, ready_s - killed_s, recovered_s - killed_s))
            self._lane.tells_kill(kills[-1])
            if next_kill:
                await self._batches(running, seen, BATCHES_BETWEEN_KILLS)
        await self._catch_up(loading, running)
        return self._story(kills)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _start(self, name: str, module: str, *arguments: str) -> Program:
        command = [sys.executable, "-m", module, str(self._folders.root), *arguments]
        return self._programs.start(name, command, self._environment, self._folders.program_log(name))

    def _start_query(self, attempt: int, kill: Kill | None) -> Program:
        self._lane.does("Spark starts")
        self._folders.mark(attempt).touch()
        moment = [self._pipeline.moment(kill)] if kill else []
        return self._start(f"query-{attempt}", self._pipeline.module, str(attempt), *moment)

    async def _batches(self, running: Program, seen: int, count: int) -> float:
        """Wait until the reader saw `count` batches beyond batch `seen`; returns when that was."""
        sightings = self._watcher.sightings
        await self._until(lambda: sightings.count_beyond(seen) >= count, f"write {count} more batches", running)
        self._lane.does("the query works")
        return self._watcher.now_s()

    async def _kill(self, running: Program, attempt: int, kill: Kill) -> tuple[float, int]:
        """Have the process die at its moment; returns when that was, and the batch that was in flight."""
        self._lane.does(f"kill -9 at {kill.moment}")
        mark = self._folders.mark(attempt)
        mark.unlink()
        await self._until(lambda: running.was_killed, f"reach the moment {kill.moment!r}", running)
        running.end_session()
        if not mark.exists():
            raise running.failed("was killed by someone else")
        await self._two_looks()
        return self._watcher.since_start_s(mark.stat().st_mtime), self._folders.batch_in_flight() or 0

    async def _catch_up(self, loading: Program, running: Program) -> None:
        """Have the loader write what is left, the query read it all, and both end."""
        self._lane.does("the query catches up")
        self._folders.hurry.touch()
        await self._until(lambda: loading.status == 0, "write all flights", loading, running)
        await self._until(self._has_read_all, "read all flights", running)
        await self._two_looks()
        running.ask_to_stop()
        await self._until(lambda: running.status == 0, "stop", running)
        running.end_session()

    def _has_read_all(self) -> bool:
        read = self._folders.offsets_read()
        return bool(read) and all(read[partition] >= end for partition, end in enumerate(self._report().ends))

    async def _two_looks(self) -> None:
        """Wait until the watcher has seen what is there now: the first look may have begun before."""
        looks = self._watcher.looks
        await self._until(lambda: self._watcher.looks >= looks + 2, "look at the output")

    async def _until(self, is_done: Callable[[], bool], what: str, *busy: Program) -> None:
        """Wait until `is_done`; the programs `busy` work on it, so none of them may end before."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_done():
            if self._watcher.problem is not None:
                raise self._watcher.problem
            for program in busy:
                if program.status is not None and not is_done():
                    raise program.failed(f"ended before it could {what}")
                if time.monotonic() > deadline_s:
                    raise program.failed(f"did not {what} within {PATIENCE_S:.0f} s")
            self._lane.counts(self._report().rows, self._watcher.sightings.row_count)
            await asyncio.sleep(PAUSE_S)

    # Telling ----------------------------------------------------------------------------------------------------------

    def _report(self) -> loader.Report:
        return loader.read_report(self._folders.loader_report)

    def _story(self, kills: list[KillStory]) -> Story:
        report, watcher = self._report(), self._watcher
        return Story(
            pipeline=self._pipeline.name,
            duration_s=watcher.now_s(),
            transactions=report.transactions,
            aborted=report.aborted,
            looks=watcher.looks,
            kills=tuple(kills),
            samples=tuple(watcher.samples),
            sightings=tuple(watcher.sightings.all),
            half_batches=tuple(watcher.sightings.half_batches.values()),
        )
