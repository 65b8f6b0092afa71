"""Real flights into several stores at once: a query is killed ten times, servers are restarted, every row is checked.

A Kafka broker, a PostgreSQL, an HDFS and a node of OpenSearch are started; with the catalog of a lake they are all that
is needed. The flights are loaded into a topic. A query looks for late departures, and writes each batch into a Kafka
topic, a table of PostgreSQL, an Iceberg table, files on HDFS and an index, under one decision. SIGKILL ends it, driver
and executor together, at ten crash points of a batch; between some of its lives PostgreSQL, the broker and the NameNode
are killed and started again. Then a client that is not oncelog's counts the rows of each store, and compares them with
the CSV that the flights came from. A twin, which writes into one store after the other, dies as often.

    python examples/demonstrations/flights_everywhere.py        # or: make demo WHAT=everywhere

Exits with 1 unless each store of the first query is exactly right. What the runs leave is in build/everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from everywhere import moments, page, reading, stores
from everywhere.stores import Stores
from flights import command, data, truth
from flights.processes import Program, Programs
from flights.waiting import until
from kafka_flights import audit
from kafka_flights.audit import Findings
from kafka_flights.doors import SPARK
from oncelog import crash_points
from oncelog.testing import faults, maven

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "everywhere"

LOOK_S = 2.0
PATIENCE_S = 900
SINKS = {"oncelog": moments.TOGETHER, "twin": moments.TWIN}

JDBC = ("org.postgresql", "postgresql", "42.7.7")


class Pipeline:
    """A query that is killed again and again."""

    def __init__(self, servers: Stores, sink: str) -> None:
        self.sink = sink
        self.folder = WORK / sink
        self._stores = servers
        self._lives = 0
        self.folder.mkdir(parents=True)
        servers.prepare(sink)

    async def die(self, moment: StrEnum) -> None:
        """Run until the first batch reaches the crash point."""
        with Programs(self.folder) as programs:
            driver = self._start(programs, moment)
            await until(lambda: driver.was_killed, f"come to {moment}", driver)

    async def live(self, is_done: Callable[[], bool]) -> None:
        """Run until everything is written."""
        with Programs(self.folder) as programs:
            driver = self._start(programs)
            await until(is_done, "write everything", driver, pause_s=LOOK_S, patience_s=PATIENCE_S)

    def _start(self, programs: Programs, moment: StrEnum | None = None) -> Program:
        self._lives += 1
        name = str(self._lives)
        jars = maven.jars("postgresql-jdbc", JDBC[2], [JDBC], with_dependencies=False)
        spark = {
            **SPARK,
            "spark.local.dir": str(self.folder / "spark"),
            "spark.driver.extraClassPath": f"{jars}/*",
        }
        settings = {**self._stores.settings(self.sink), "sink": self.sink, "folder": str(self.folder), "spark": spark}
        path = os.pathsep.join([str(ROOT / "examples" / "demonstrations"), os.environ.get("PYTHONPATH", "")])
        variables = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        if moment is not None:
            armed = faults.killing_at(moment, self.folder / f"{name}.mark")
            variables |= {crash_points.VARIABLE: armed[crash_points.VARIABLE]}
        asked = [sys.executable, "-m", "everywhere.query", json.dumps(settings)]
        return programs.start(f"{self.sink}-{name}", asked, variables, self.folder / f"{name}.out")


async def main(console: Console) -> int:
    began_s = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    flights = data.read()
    expected = truth.late_departures(flights)
    with stores.running(WORK) as servers:
        servers.kafka.create_topic("flights", partitions=stores.PARTITIONS)
        console.print(f"Loading {flights.num_rows:,} flights into Kafka {servers.kafka.version}")
        audit.load(servers.kafka.address, "flights", flights)
        found = {sink: await run(Pipeline(servers, sink), servers, expected, console) for sink in SINKS}
    written = page.write(WORK / "everywhere.html", expected.num_rows, found)
    show(console, found, f"{expected.num_rows:,} late departures, {time.monotonic() - began_s:.0f} s")
    console.print(f"As a page: {written}")
    return 0 if all(one.is_exact for one in found["oncelog"].values()) else 1


async def run(pipeline: Pipeline, servers: Stores, expected: pa.Table, console: Console) -> dict[str, Findings]:
    """Kill a pipeline ten times, let it finish, and compare each store with the truth."""
    for life, moment in enumerate(SINKS[pipeline.sink]):
        if life in moments.RESTARTED:
            server = moments.RESTARTED[life]
            console.print(f"{pipeline.sink}: {server} is killed and started again")
            servers.restart(server)
        console.print(f"{pipeline.sink}: dies at {moment}")
        await pipeline.die(moment)
    console.print(f"{pipeline.sink}: lives")
    readers = reading.readers(servers, pipeline.sink, pipeline.folder)
    await pipeline.live(lambda: all(len(read()) >= expected.num_rows for read in readers.values()))
    return {store: audit.judge(expected, read()) for store, read in readers.items()}


def show(console: Console, found: dict[str, dict[str, Findings]], title: str) -> None:
    table = Table("the query", "store", "lost", "duplicated", title=title)
    names = {"oncelog": "together(...)", "twin": "one store after the other"}
    for sink, by_store in found.items():
        for store, one in by_store.items():
            table.add_row(names[sink], store, f"{one.lost:,}", f"{one.duplicated:,}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(command.run(main))
