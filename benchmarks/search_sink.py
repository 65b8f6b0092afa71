"""Writes a batch into an index of OpenSearch, by oncelog's sink and by a plain bulk loop."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import urllib3
from pyspark.sql import DataFrame, Row, SparkSession

from benchmarks.report import Finding, at_least, median, per_second
from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog_search import options as sink_options
from oncelog_search.batch_sink import SearchTarget
from oncelog_search.jobs import SparkJob
from tests.support.servers.opensearch import OpenSearch, running_server

EXPLANATION = """\
The peer is what programs do: `foreachPartition`, and requests to `_bulk` of as many bytes as the sink's, with ids that
the store draws. It is at least once. Both take the same cached rows by two tasks, each batch into a new index of one
shard on this disk. The store is a node of its own, on the same cores. A second loop differs from the first in nothing
but that it gives ids as the sink does: the store looks each one up."""

PAYLOAD = 92
"""Bytes of a row beside its id, which has 8."""

FIELDS = {"id": {"type": "long"}, "value": {"type": "keyword"}}

REQUEST_BYTES = 5_000_000

LEAST = 1.0

Write = Callable[[str], None]
"""Writes the batch into an index of this name."""


def run(*, quick: bool) -> list[Finding]:
    """Measure in turns, after one round that counts for nothing."""
    rows, rounds = (100_000, 2) if quick else (500_000, 3)
    with tempfile.TemporaryDirectory() as place, running_server(Path(place, "server")) as server:
        folder, opensearch = Path(place), OpenSearch(server.url)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "2g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        batch = spark.range(0, rows, 1, 2).selectExpr("id", f"rpad(sha2(string(id), 256), {PAYLOAD}, 'x') AS value")
        batch.cache().count()
        ways = {
            "sink": by_sink(batch, folder, server.url),
            "loop": by_loop(batch, server.url, has_ids=False),
            "loop with ids": by_loop(batch, server.url, has_ids=True),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds + 1):
            for way, write in ways.items():
                seconds[way].append(measured(opensearch, write, rows))
        spark.stop()
    return list(findings(rows, {way: times[1:] for way, times in seconds.items()}))


def findings(rows: int, seconds: dict[str, list[float]]) -> Iterator[Finding]:
    """The sink beside each loop, by the median of the pairs."""
    ours = seconds["sink"]
    for way in ("loop", "loop with ids"):
        ratio = median([peer / own for own, peer in zip(ours, seconds[way], strict=True)])
        peer = f"{per_second(rows, median(seconds[way]))} {way}"
        least = LEAST if way == "loop" else None
        yield at_least(f"{rows:,} rows of 100 bytes", per_second(rows, median(ours)), peer, ratio, least)


def measured(opensearch: OpenSearch, write: Write, rows: int) -> float:
    """The seconds of one batch into a new index."""
    index = opensearch.new_index(FIELDS)
    os.sync()
    began = time.perf_counter()
    write(index)
    took = time.perf_counter() - began
    opensearch.ask("POST", f"/{index}/_refresh")
    found = opensearch.ask("GET", f"/{index}/_count")["count"]
    if found != rows:
        raise AssertionError(f"{found} documents instead of {rows}")
    opensearch.ask("DELETE", f"/{index}")
    return took


def by_sink(batch: DataFrame, folder: Path, url: str) -> Write:
    """By the sink, all phases."""

    def write(index: str) -> None:
        staging = folder / index
        given = {"url": url, "index": index, "staging": str(staging), "requestBytes": REQUEST_BYTES}
        with closing(metadata.open_metadata(str(folder / "ledger"))) as store:
            request = BatchRequest(index, "query", "sink", "run", 0, "offsets")
            BatchDriver(SearchTarget(store, sink_options.parse(given))).run(Batch(request, SparkJob(batch)))
        shutil.rmtree(staging)

    return write


def by_loop(batch: DataFrame, url: str, *, has_ids: bool) -> Write:
    """By a loop over the rows of each partition."""

    def write(index: str) -> None:
        def send(rows: Iterator[Row]) -> None:
            pool = urllib3.PoolManager()
            address = f"{url}/{index}/_bulk?filter_path=errors"

            def ask(lines: list[str]) -> None:
                headers = {"Content-Type": "application/x-ndjson"}
                answer = pool.request("POST", address, body="".join(lines).encode(), headers=headers)
                if answer.status != 200 or json.loads(answer.data)["errors"]:
                    raise AssertionError(answer.data[:500])

            lines, size = [], 0
            for row in rows:
                action = {"create": {"_id": f"{index}-{row.id}"}} if has_ids else {"create": {}}
                lines.append(f"{json.dumps(action)}\n{json.dumps(row.asDict())}\n")
                size += len(lines[-1])
                if size > REQUEST_BYTES:
                    ask(lines)
                    lines, size = [], 0
            if lines:
                ask(lines)

        batch.foreachPartition(send)

    return write
