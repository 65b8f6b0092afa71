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
    found: list[tuple[Row, list[Row]]] = []
    for address, watcher in drivers:
        if watcher.reading is not None:
            sinks = _sinks(watcher.reading)
            for (query,) in watcher.reading.values[c.QUERY_ACTIVE]:
                row = _query(query, address, watcher.reading, (watcher.read_ms or 0) / 1000)
                found.append((row, sinks.get(query, [])))
    found.sort(key=lambda one: (one[0][2] == "runs", one[0][0], one[0][1]))
    return Table("Queries", _COLUMNS, [row for row, _ in found], [parts for _, parts in found])


def _query(query: str, address: Address, reading: Reading, now_seconds: float) -> Row:
    values, one = reading.values, (query,)
    behind = [offsets for (name, _), offsets in values[c.SOURCE_BEHIND].items() if name == query]
    reported = values[c.QUERY_PROGRESS].get(one)
    results: Counter[str] = Counter()
    for (name, _, _, result), count in values[c.SINK_BATCHES].items():
        if name == query:
            results[result] += int(count)
    return [
        query,
        str(address),
        "runs" if values[c.QUERY_ACTIVE][one] else "ended",
        None if reported is None else max(now_seconds - reported, 0),
        values[c.QUERY_BATCH].get(one),
        max(behind, default=None),
        values[c.QUERY_ROWS].get(one),
        _in_words(results),
    ]


def _sinks(reading: Reading) -> dict[str, list[Row]]:
    """The sinks of each query. Their rows are those that they have written; a query's are those that it has read."""
    results: dict[tuple[str, str, str], Counter[str]] = {}
    for (query, target, prefix, result), count in reading.values[c.SINK_BATCHES].items():
        results.setdefault((query, target, prefix), Counter())[result] += int(count)
    found: dict[str, list[Row]] = {}
    for (query, target, prefix), counts in sorted(results.items()):
        rows = reading.values[c.SINK_ROWS].get((query, target, prefix))
        row = [f"{prefix} into {target}", None, None, None, None, None, rows, _in_words(counts)]
        found.setdefault(query, []).append(row)
    return found


def _in_words(results: Counter[str]) -> str:
    return ", ".join(f"{count} {result}" for result, count in results.most_common() if count)
