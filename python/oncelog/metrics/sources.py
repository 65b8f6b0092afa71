"""What an exporter watches. A source that failed is closed, and opened again for the next read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from oncelog.batches.ledger import all_kinds
from oncelog.errors import OncelogError
from oncelog.metrics import catalogue
from oncelog.metrics.catalogue import Metric
from oncelog.metrics.ledgers import read_ledgers
from oncelog.metrics.logs import LogReader
from oncelog.metrics.reading import Reading
from oncelog.ports import ZnodeStore
from oncelog.runtime import Log
from oncelog.znodes.clock import wall_ms


class Source(Protocol):
    """Something that is open, and can be read."""

    def read(self) -> Reading: ...

    def close(self) -> None: ...


class LogSource:
    """A log, with the ledgers in its store."""

    metrics: Final[Sequence[Metric]] = (*catalogue.LOG, *catalogue.LEDGER)

    def __init__(self, log: Log) -> None:
        self._reader = LogReader(log.services)
        self.read = self._reader.read
        self.close = log.close


class LedgerSource:
    """The ledgers of a store that holds no log."""

    metrics: Final[Sequence[Metric]] = catalogue.LEDGER

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self.close = store.close

    def read(self) -> Reading:
        reading = Reading(self.metrics)
        with self._store.snapshot() as reader:
            read_ledgers(reader, reading, wall_ms())
        return reading


class Reopening:
    """A source that is open whenever it can be.

    Args:
        open_source: opens it. It is opened at once, so that a wrong place is an error of the start.
    """

    def __init__(self, open_source: Callable[[], Source]) -> None:
        self._open = open_source
        all_kinds()  # packages are looked for now, and not in the first reading
        self._source: Source | None = open_source()

    def read(self) -> Reading:
        source = self._source or self._open()
        self._source = None
        try:
            reading = source.read()
        except BaseException:
            with suppress(OncelogError):
                source.close()
            raise
        self._source = source
        return reading

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
