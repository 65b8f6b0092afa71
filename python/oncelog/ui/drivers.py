"""What running drivers say of their queries: the pages of `oncelog.spark.observe`, read over HTTP."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Final, NamedTuple

from oncelog.errors import RetriableError
from oncelog.metrics import catalogue as c
from oncelog.metrics.addresses import Address
from oncelog.metrics.exposition import parse_page
from oncelog.metrics.reading import Reading
from oncelog.ui.tables import Row, Table
from oncelog.ui.troubles import Trouble
from oncelog.ui.view import Told
from oncelog.ui.watching import Watcher

ANSWER_SECONDS: Final = 5.0
MAX_PAGE_BYTES: Final = 8 << 20
"""A page with the most queries that a driver shows has some 2 MiB."""

_COLUMNS: Final = ("query", "driver", "state", "silent for", "batch", "behind", "rows", "batches")


class Driver(NamedTuple):
    """A driver, and what it said last."""

    address: Address
    watcher: Watcher


def watch(address: Address) -> Driver:
    """A driver that serves its metrics at this address."""
    return Driver(address, Watcher(lambda: read_driver(address)))


def read_driver(address: Address) -> Reading:
    """What a driver says now. It is not followed to another place, and must answer within a bound of time and size.

    Raises:
        OSError, HTTPException, ValueError, RetriableError: it says nothing, or no such page.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    with closing(HTTPConnection(address.host, address.port, timeout=ANSWER_SECONDS)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise RetriableError("the answer is no page of metrics", status=answer.status)
        page = bytearray()
        while some := answer.read1(1 << 16):
            page += some
            if len(page) > MAX_PAGE_BYTES or time.monotonic() > deadline:
                raise RetriableError("the page is too long, or takes too long", size_bytes=len(page))
    return parse_page(page.decode(), c.QUERY)


def tell(drivers: Sequence[Driver]) -> Told | None:
    """What drivers said last; None if there are none."""
    return Told(list(_troubles(drivers)), _queries(drivers)) if drivers else None


def _troubles(drivers: Iterable[Driver]) -> Iterator[Trouble]:
    """Drivers that do not answer, and queries that ended with an error."""
    for address, watcher in drivers:
        if watcher.problem is not None:
            yield Trouble(f"the driver does not answer: {watcher.problem}", f"driver {address}", None, "")
        if watcher.reading is not None:
            for (query,), count in watcher.reading.values[c.QUERY_FAILURES].items():
                if count and not watcher.reading.values[c.QUERY_ACTIVE].get((query,)):
                    what = f"query does not run; it ended with an error, {count:.0f} times since its driver began"
                    yield Trouble(what, query, None, "")


def _queries(drivers: Iterable[Driver]) -> Table:
    """Queries, those that do not run first. Each unfolds to its sinks."""
    found = [one for driver in drivers for one in _of_driver(driver)]
    found.sort(key=lambda one: (one[0][2] == "runs", one[0][0], one[0][1]))
    return Table("Queries", _COLUMNS, [row for row, _ in found], [parts for _, parts in found])


def _of_driver(driver: Driver) -> Iterator[tuple[Row, list[Row]]]:
    """Its queries, each with its sinks. What sinks have written is in the column of what a query has read."""
    reading = driver.watcher.reading
    if reading is None:
        return
    values, now_seconds = reading.values, (driver.watcher.read_ms or 0) / 1000
    behind: dict[str, float] = {}
    for (query, _), offsets in values[c.SOURCE_BEHIND].items():
        behind[query] = max(offsets, behind.get(query, 0))
    results: dict[str, Counter[str]] = {}
    sinks: dict[str, list[Row]] = {}
    for (query, target, prefix), counts in sorted(_results(reading).items()):
        results.setdefault(query, Counter()).update(counts)
        rows = values[c.SINK_ROWS].get((query, target, prefix))
        row = [f"{prefix} into {target}", None, None, None, None, None, rows, _in_words(counts)]
        sinks.setdefault(query, []).append(row)
    for (query,), runs in values[c.QUERY_ACTIVE].items():
        reported = values[c.QUERY_PROGRESS].get((query,))
        silent = None if reported is None else max(now_seconds - reported, 0)
        batch, rows = (values[metric].get((query,)) for metric in (c.QUERY_BATCH, c.QUERY_ROWS))
        state, batches = "runs" if runs else "ended", _in_words(results.get(query, Counter()))
        row = [query, str(driver.address), state, silent, batch, behind.get(query), rows, batches]
        yield row, sinks.get(query, [])


def _results(reading: Reading) -> dict[tuple[str, str, str], Counter[str]]:
    """How many batches of each sink had which result."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for (query, target, prefix, result), count in reading.values[c.SINK_BATCHES].items():
        found.setdefault((query, target, prefix), Counter())[result] += int(count)
    return found


def _in_words(results: Counter[str]) -> str:
    return ", ".join(f"{count} {result}" for result, count in results.most_common() if count)
