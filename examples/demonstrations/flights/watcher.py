"""The reader beside the query: looks at the output many times a second, and once a second at how far the query is.

In a bucket each look costs requests, so there it looks less often.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from flights.folders import FLIGHTS, GROUP, Folders
from flights.reading import OutputReader
from flights.sightings import Sightings
from flights.story import Sample
from oncelog.errors import RetriableError

LOOK_PAUSE_S = 0.05
SAMPLE_PAUSE_S = 1.0
LOOK_PAUSE_IN_A_BUCKET_S = 0.25
SAMPLE_PAUSE_IN_A_BUCKET_S = 5.0


class Watcher:
    """Watches one run from a thread of its own, through clients of its own.

    Attributes:
        looks: how many looks are done.
        problem: what ended the thread early.
    """

    def __init__(self, folders: Folders, reader: OutputReader, started_s: float) -> None:
        self._log = folders.open_log()
        self._reader = reader
        self._started_s = started_s
        self._look_pause_s = LOOK_PAUSE_IN_A_BUCKET_S if folders.bucket else LOOK_PAUSE_S
        self._sample_pause_s = SAMPLE_PAUSE_IN_A_BUCKET_S if folders.bucket else SAMPLE_PAUSE_S
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

    def _run(self) -> None:
        next_sample_s = 0.0
        try:
            while not self._is_over.wait(self._look_pause_s):
                with suppress(RetriableError):  # the next look shows what this one did not
                    self._look()
                if self.now_s() >= next_sample_s:
                    next_sample_s = self.now_s() + self._sample_pause_s
                    with suppress(RetriableError):  # a second without a sample
                        self.samples.append(self._sample())
        except Exception as problem:  # noqa: BLE001 - the thread that waits raises it
            self.problem = problem

    def _look(self) -> None:
        table = self._reader.look()
        if table.num_rows:
            rows, batches = (table[name].to_numpy() for name in ("row", "batch"))
            self.sightings.see(self.now_s(), rows, batches)
        self.looks += 1

    def _sample(self) -> Sample:
        return Sample(self.now_s(), self._end("read_uncommitted"), self._end("read_committed"), self._position())

    def _position(self) -> int:
        with self._log.consumer(group_id=GROUP) as consumer:
            consumer.subscribe([FLIGHTS])
            committed = consumer.committed(consumer.assignment(), require_stable=False)
            return sum(position.offset for position in committed.values())

    def _end(self, isolation_level: str) -> int:
        with self._log.consumer(isolation_level=isolation_level) as consumer:
            consumer.subscribe([FLIGHTS])
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
