"""Writes batches into five stores, by five sinks under one decision and by each alone."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame

import oncelog.spark
import oncelog_files
import oncelog_kafka
import oncelog_postgres
import oncelog_search
import oncelog_tables
from benchmarks import kafka_world
from benchmarks.kafka_world import World
from benchmarks.report import Finding, at_most, median, per_second
from oncelog.spark.kit.ledgers import close_ledgers
from tests.support.servers.opensearch import OpenSearch
from tests.support.servers.opensearch import running_server as running_opensearch
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres import running_server as running_postgres

EXPLANATION = """\
The stores are those of `make demo WHAT=everywhere`, on this disk: Kafka, PostgreSQL, an Iceberg table, files and
OpenSearch. The peer is the sum of five queries with one of oncelog's sinks each. All read the same files, a batch for
each, and keep their ledger in the same SQLite file. What counts is the time in `foreachBatch`, but for a query's first
batch. The ratio of one alone is its part of the sum."""

PAYLOAD = 92
"""Bytes of a row beside its id, which has 8."""

MOST = 1.1

STORES = ("kafka", "postgres", "iceberg", "files", "search")
ALL = "together"

Sink = Callable[[DataFrame, int], None]


class Stores:
    """Servers and folders, and sinks that write into new topics, tables and folders of them."""

    def __init__(self, world: World, postgres: PostgresServer, search: OpenSearch) -> None:
        self._world = world
        self._postgres = postgres
        self._search = search
        self._lake = {
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{world.folder}/catalog.db",
            "catalog.warehouse": f"file://{world.folder}/lake",
        }
        self._catalog = load_catalog("lake", **{name.removeprefix("catalog."): at for name, at in self._lake.items()})
        self._catalog.create_namespace("bench")
        self._numbers = itertools.count()

    def sink(self, way: str) -> Sink:
        """Of one store, or of all together."""
        common = {"transactionalIdPrefix": f"p{next(self._numbers)}", "znodes": str(self._world.folder / "ledger")}
        if way != ALL:
            return cast("Sink", self._one(way, common))
        return oncelog.spark.together(*((self._one(store, common), AS_THEY_ARE[store]) for store in STORES))

    def _one(self, store: str, common: dict[str, str]) -> Any:
        name = f"t{next(self._numbers)}"
        match store:
            case "kafka":
                writing = kafka_world.writing(self._world.broker.address, self._world.topic())
                return oncelog_kafka.sink(**writing, **common)
            case "postgres":
                self._postgres.ask(f"CREATE TABLE public.{name} (id bigint, value text)")
                return oncelog_postgres.sink(url=self._postgres.url(), table=f"public.{name}", **common)
            case "iceberg":
                self._catalog.create_table(f"bench.{name}", pa.schema({"id": pa.int64(), "value": pa.string()}))
                return oncelog_tables.iceberg(table=f"bench.{name}", catalog="lake", **self._lake, **common)
            case "files":
                return oncelog_files.sink(path=str(self._world.fresh("out")), **common)
        index = self._search.new_index({"id": {"type": "long"}, "value": {"type": "keyword"}})
        staging = str(self._world.fresh("staging"))
        return oncelog_search.sink(url=self._search.url, index=index, staging=staging, **common)


def as_records(rows: DataFrame) -> DataFrame:
    """Rows as Kafka's records."""
    return rows.selectExpr("string(id) AS key", "value")


AS_THEY_ARE: dict[str, Callable[[DataFrame], DataFrame]] = dict.fromkeys(STORES, lambda rows: rows)
AS_THEY_ARE["kafka"] = as_records


def run(*, quick: bool) -> list[Finding]:
    """Measure in turns, after one round that counts for nothing."""
    rows, batches, rounds = (20_000, 3, 2) if quick else (50_000, 4, 3)
    with tempfile.TemporaryDirectory() as place, running(Path(place)) as (world, stores):
        source = world.fresh("in")
        numbers = world.spark.range(0, rows * batches, 1, batches)
        numbers.selectExpr("id", f"rpad(sha2(string(id), 256), {PAYLOAD}, 'x') AS value").write.parquet(str(source))
        ways = {way: lambda way=way: measured(world, source, stores.sink(way), way) for way in (*STORES, ALL)}
        seconds = kafka_world.interleaved(ways, rounds)
    return list(findings(rows * (batches - 1), seconds))


def findings(rows: int, seconds: dict[str, list[float]]) -> Iterator[Finding]:
    """All together beside the sum, by the median of the rounds; then each alone."""
    sums = [sum(of_one) for of_one in zip(*(seconds[store] for store in STORES), strict=True)]
    ratio = median([ours / peer for ours, peer in zip(seconds[ALL], sums, strict=True)])
    what = f"five stores, {rows:,} rows of 100 bytes each"
    yield at_most(what, per_second(rows, median(seconds[ALL])), per_second(rows, median(sums)), ratio, MOST)
    for store in STORES:
        alone = median(seconds[store])
        yield Finding(f"{store} alone", per_second(rows, alone), "", alone / median(sums))


def measured(world: World, source: Path, sink: Sink, way: str) -> float:
    """The seconds of all batches but the first, in the sink."""
    taken: list[float] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        began = time.perf_counter()
        sink(rows if way == ALL else AS_THEY_ARE[way](rows), batch_id)
        taken.append(time.perf_counter() - began)

    rows = world.spark.readStream.schema("id long, value string").option("maxFilesPerTrigger", 1).parquet(str(source))
    world.run(rows.writeStream.foreachBatch(write))
    close_ledgers()
    return sum(taken[1:])


@contextmanager
def running(folder: Path) -> Iterator[tuple[World, Stores]]:
    """All servers, and a session."""
    (folder / "search").mkdir()
    with (
        kafka_world.world(folder, has_peer=False) as world,
        running_postgres("shared_buffers=256MB", "max_wal_size=2GB") as postgres,
        running_opensearch(folder / "search") as search,
    ):
        yield world, Stores(world, postgres, OpenSearch(search.url))
