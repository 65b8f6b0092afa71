"""The reader beside the query: looks at the output many times a second, and once a second at how far the query is.

A batch that comes as a whole is seen with one look. If a later look brings rows of a batch that were not there before,
then the earlier one showed half a batch.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import oncelog

from flights.folders import Folders
from flights.loader import TOPIC
from flights.pipeline import GROUP
from flights.reading import OutputReader
from flights.story import HalfBatch, Sample, Sighting

LOOK_PAUSE_S = 0.05
SAMPLE_PAUSE_S = 1.0

Numbers = npt.NDArray[np.int64]


class Sightings:
    """Which rows of which batches were seen when."""

    def __init__(self) -> None:
        self.all: list[Sighting] = []
        self.half_batches: dict[int, HalfBatch] = {}
        self._rows: dict[int, set[int]] = {}
        self._first_s: dict[int, float] = {}

    def see(self, at_s: float, rows: Numbers, batches: Numbers) -> None:
        """Note the rows that one look brought, with the batch of each."""
        for batch in np.unique(batches).tolist():
            of_batch = rows[batches == batch].tolist()
            self._see_batch(at_s, batch, of_batch)

    def _see_batch(self, at_s: float, batch: int, rows: list[int]) -> None:
        known = self._rows.setdefault(batch, set())
        first_s = self._first_s.setdefault(batch, at_s)
        seen_before, new = len(known), set(rows) - known
        if seen_before and new:
            first_seen = self.half_batches[batch].seen if batch in self.half_batches else seen_before
            self.half_batches[batch] = HalfBatch(first_s, batch, first_seen, seen_before + len(new))
        known |= new
        self.all.append(Sighting(at_s, batch, len(rows), len(rows) - len(new)))

    @property
    def newest_batch(self) -> int:
        """The highest batch seen; -1 before the first."""
        return max(list(self._rows), default=-1)

    def count_beyond(self, batch: int) -> int:
        """How many batches above `batch` were seen."""
        return sum(seen > batch for seen in list(self._rows))

    @property
    def row_count(self) -> int:
        """Different rows seen."""
        return sum(len(rows) for rows in list(self._rows.values()))


class Watcher:
    """Watches one run from a thread of its own, through clients of its own.

    Attributes:
        looks: how many looks are done.
        problem: what ended the thread early.
    """

    def __init__(self, folders: Folders, reader: OutputReader, started_s: float) -> None:
        self._log = oncelog.open(folders.log, create=False)
        self._reader = reader
        self._started_s = started_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher")
        self.sightings = Sightings()
        self.samples: list[Sample] = []
        self.looks = 0
        self.problem: Exception | None = None

    def now_s(self) -> float:
        """Seconds since the run began."""
        return self.since_start_s(time.time())

    def since_start_s(self, clock_s: float) -> float:
        """A time of the wall clock, as seconds since the run began."""
        return clock_s - self._started_s

    def position(self) -> tuple[int, ...]:
        """The next offset of each partition that the query's group reads."""
        with self._log.consumer(group_id=GROUP) as consumer:
            consumer.subscribe([TOPIC])
            committed = consumer.committed(consumer.assignment(), require_stable=False)
            return tuple(committed[p].offset if p in committed else 0 for p in consumer.assignment())

    def _run(self) -> None:
        next_sample_s = 0.0
        try:
            while not self._is_over.wait(LOOK_PAUSE_S):
                self._look()
                if self.now_s() >= next_sample_s:
                    self.samples.append(self._sample())
                    next_sample_s = self.samples[-1].at_s + SAMPLE_PAUSE_S
        except Exception as problem:  # noqa: BLE001 - the thread that waits raises it
            self.problem = problem

    def _look(self) -> None:
        table = self._reader.look()
        if table.num_rows:
            rows, batches = (table[name].to_numpy() for name in ("row", "batch"))
            self.sightings.see(self.now_s(), rows, batches)
        self.looks += 1

    def _sample(self) -> Sample:
        return Sample(self.now_s(), self._end("read_uncommitted"), self._end("read_committed"), sum(self.position()))

    def _end(self, isolation_level: str) -> int:
        with self._log.consumer(isolation_level=isolation_level) as consumer:
            consumer.subscribe([TOPIC])
            return sum(consumer.end_offsets(consumer.assignment()).values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._log.close()
