"""Searches the partitions for transactions that nobody will end, less often than the exporter reads.

A search asks each broker once for every thousand partitions, and may take longer than a scrape waits. Hence a thread of
its own searches, and readings have what the last search found. In between, it only asks the partitions in which
something hangs, so that the alert ends soon after a repair, and repeats a search that failed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from oncelog.errors import OncelogError
from oncelog.metrics.catalogue import gauge
from oncelog.metrics.reading import Reading
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.operations.repair import Search
from oncelog_kafka.protocol.hanging import Verdict

_log = logging.getLogger(__name__)

LEFT_OPEN = gauge(
    "oncelog_kafka_transactions_left_open",
    "Transactions that are open in a partition and that nobody will end, as of the last search of the partitions, by "
    "how they ended: committed, aborted, unknown, running",
    "verdict",
    alert="OncelogKafkaMarkerLeftOut",
)
NOT_ASKED = gauge(
    "oncelog_kafka_partitions_not_asked",
    "Partitions that the search could not check: no answer, or no permission to read",
)
ASKED = gauge("oncelog_kafka_partitions_asked_timestamp_seconds", "Time when the last search of all partitions ended")

PARTITIONS: Final = (LEFT_OPEN, NOT_ASKED, ASKED)

EVERY_MS = 900_000
"""How often all partitions are asked by default."""

AGAIN_MS = 60_000
"""How often those in which something hangs are asked, and all after a search that failed."""

Partitions = Collection[tuple[str, int]] | None
"""Which partitions to ask; None for all."""


class LeftOpen:
    """Searches again and again, as often as it may, for one exporter after another.

    Args:
        search: asks partitions, and the coordinators and ledgers about what is open there. Called in another thread.
        every_ms: how often all partitions are asked.
        clock: says when.
    """

    def __init__(
        self, search: Callable[[Partitions], Search], every_ms: int = EVERY_MS, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._search = search
        self._every_ms = every_ms
        self._clock = clock
        self._running: Future[Search] | None = None
        self._is_of_all = True
        self._began_ms = 0
        self._all_began_ms: int | None = None
        self._found: Search | None = None
        self._asked_ms = 0

    def read(self, reading: Reading) -> None:
        """Note what was found, and search again if it is time. Never waits."""
        if self._running is not None and self._running.done():
            done, self._running = self._running, None
            self._take(done)
        if self._running is None:
            self._start(self._clock.monotonic_ms())
        if self._found is None:
            return
        by_verdict = Counter(one.verdict for one in self._found.hangs)
        for verdict in Verdict:
            reading.put(LEFT_OPEN, by_verdict[verdict], verdict.value)
        reading.put(NOT_ASKED, len(self._found.not_asked))
        reading.put(ASKED, self._asked_ms / 1000)

    def close(self) -> None:
        """Wait for the search that runs."""
        if self._running is not None:
            wait([self._running])

    def _start(self, now_ms: int) -> None:
        hanging = set() if self._found is None else {(one.topic, one.partition) for one in self._found.hangs}
        every_ms = AGAIN_MS if self._found is None else self._every_ms
        if self._all_began_ms is None or now_ms - self._all_began_ms >= every_ms:
            self._is_of_all, self._all_began_ms = True, now_ms
        elif hanging and now_ms - self._began_ms >= AGAIN_MS:
            self._is_of_all = False
        else:
            return
        self._began_ms = now_ms
        worker = ThreadPoolExecutor(1, thread_name_prefix="oncelog-partitions")  # whose thread ends with the search
        self._running = worker.submit(self._search, None if self._is_of_all else hanging)
        worker.shutdown(wait=False)

    def _take(self, done: Future[Search]) -> None:
        try:
            found = done.result()
        except OncelogError as problem:  # an old finding would hide that nobody knows the present one
            self._found = None
            _log.warning("the partitions cannot be asked for hanging transactions: %s", problem)
            return
        if self._is_of_all:
            self._found, self._asked_ms = found, self._clock.now_ms()
        elif self._found is not None:
            self._found = Search(found.hangs, self._found.not_asked)
