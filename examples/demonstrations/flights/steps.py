"""The steps of a run that all experiments take. Each waits until what it caused was seen from outside."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flights import loader, waiting
from flights.folders import DELAYED, FLIGHTS, Folders
from flights.processes import Program, Programs
from flights.progress import Lane
from flights.reading import OutputReader
from flights.story import KillStory, Story
from flights.watcher import Watcher

EXAMPLES = Path(__file__).parents[1]
PARTITIONS = 4


class Steps:
    """What an experiment does with its programs. Made by `beginning`.

    Attributes:
        folders: of the run.
        watcher: of its output.
        lane: of the display.
    """

    def __init__(self, name: str, folders: Folders, programs: Programs, watcher: Watcher, lane: Lane) -> None:
        self.folders = folders
        self.watcher = watcher
        self.lane = lane
        self._name = name
        self._programs = programs

    def start(self, name: str, module: str, *arguments: str) -> Program:
        """Start one of the example's programs on the folder of the run."""
        command = [sys.executable, "-m", module, self.folders.argument, *arguments]
        return self._programs.start(name, command, environment(), self.folders.program_log(name))

    def start_loader(self) -> Program:
        """Start the program that writes the flights."""
        return self.start("loader", "flights.loader")

    async def batches(self, running: Program, seen: int, count: int) -> float:
        """Wait until the reader saw `count` batches beyond batch `seen`; returns when that was."""
        sightings = self.watcher.sightings
        await self.until(lambda: sightings.count_beyond(seen) >= count, f"write {count} more batches", running)
        self.lane.does("the query works")
        return self.watcher.now_s()

    async def two_looks(self) -> None:
        """Wait until the watcher has seen what is there now: the first look may have begun before."""
        looks = self.watcher.looks
        await self.until(lambda: self.watcher.looks >= looks + 2, "look at the output")

    async def catch_up(self, loading: Program, running: Program) -> None:
        """Have the loader write what is left, the query read it all, and both end."""
        self.lane.does("the query catches up")
        self.folders.hurry.touch()
        await self.until(lambda: loading.status == 0, "write all flights", loading, running)
        await self.until(self._has_read_all, "read all flights", running)
        await self.two_looks()
        running.ask_to_stop()
        await self.until(lambda: running.status == 0, "stop", running)
        running.end_session()

    async def until(self, is_done: Callable[[], bool], what: str, *busy: Program) -> None:
        """Wait until `is_done`; the programs `busy` work on it, so none of them may end before."""
        await waiting.until(is_done, what, *busy, meanwhile=self._look_around)

    def story(self, kills: Sequence[KillStory]) -> Story:
        """What is remembered of the run."""
        report, watcher = self._report(), self.watcher
        return Story(
            pipeline=self._name,
            duration_s=watcher.now_s(),
            transactions=report.transactions,
            aborted=report.aborted,
            looks=watcher.looks,
            kills=tuple(kills),
            samples=tuple(watcher.samples),
            sightings=tuple(watcher.sightings.all),
            half_batches=tuple(watcher.sightings.half_batches.values()),
        )

    def _has_read_all(self) -> bool:
        read = self.folders.offsets_read()
        return bool(read) and all(read[partition] >= end for partition, end in enumerate(self._report().ends))

    def _look_around(self) -> None:
        if self.watcher.problem is not None:
            raise self.watcher.problem
        self.lane.counts(self._report().rows, self.watcher.sightings.row_count)

    def _report(self) -> loader.Report:
        return loader.read_report(self.folders.loader_report)


@contextmanager
def beginning(
    name: str, folders: Folders, programs: Programs, reader: Callable[[Folders], OutputReader], lane: Lane
) -> Iterator[Steps]:
    """Create the log, and watch the output for the time of the block.

    Args:
        name: of the pipeline.
        folders: of the run.
        programs: where what the steps start belongs to.
        reader: of the output.
        lane: of the display.
    """
    with folders.open_log(create=True) as log:
        log.create_topic(FLIGHTS, partitions=PARTITIONS)
        log.create_topic(DELAYED, partitions=PARTITIONS)
    with reader(folders) as output, Watcher(folders, output, time.time()) as watcher:
        yield Steps(name, folders, programs, watcher, lane)


def environment() -> dict[str, str]:
    """The environment of a program: it finds the rooms of the example."""
    paths = [str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
