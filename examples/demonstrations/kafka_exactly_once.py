"""Real flights through Kafka: a query is killed ten times, a broker is restarted three times, and every row is checked.

A broker is started from Maven's jars and loaded with the flights in transactions; every fifth is sent again and
aborted. A query looks for late departures and writes them to another topic. SIGKILL ends it, driver and executor
together, at ten crash points of a micro-batch, and between some of its runs the broker is killed and started again.
Then librdkafka reads the topic read_committed, and every row is compared with the CSV that the flights came from. A
twin without transactions is killed as often, except with connect, where foreachBatch needs more of the server's Python.

    python examples/demonstrations/kafka_exactly_once.py                     # or: make demo WHAT=kafka
    python examples/demonstrations/kafka_exactly_once.py --by spark-submit   # or: make demo WHAT=kafka BY=spark-submit
    python examples/demonstrations/kafka_exactly_once.py --by connect        # or: make demo WHAT=kafka BY=connect
    python examples/demonstrations/kafka_exactly_once.py --transactions 1    # or: make demo WHAT=kafka TRANSACTIONS=1

The query is the same each time. What is killed is a Python program with its driver, a driver with its program, or a
Spark Connect server, whose client then connects to the next one. By default the broker has transactions of version 2,
with which executors keep producers between batches; at version 1 each batch opens new ones. Exits with 1 unless the
topic is exactly right. What the runs leave is in build/kafka.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from flights import command, data, truth
from flights.processes import Program, Programs
from flights.waiting import until
from kafka_flights import audit
from kafka_flights.audit import Findings
from kafka_flights.doors import ROOT, Door, Starter
from oncelog.crash_points import CrashPoint
from oncelog.testing.kafka_broker import TV1_FEATURES, KafkaBroker, running_broker
from oncelog_kafka.crash_points import KafkaCrashPoint

WORK = ROOT / "build" / "kafka"

KILLS = (
    CrashPoint.SINK_PLAN,
    CrashPoint.SINK_PLANNED,
    KafkaCrashPoint.WRITTEN,
    KafkaCrashPoint.CHECKED,
    CrashPoint.ROUND_DECIDE,
    CrashPoint.ROUND_DECIDED,
    KafkaCrashPoint.END,
    KafkaCrashPoint.ENDED,
    KafkaCrashPoint.COMPLETE,
    CrashPoint.SINK_DONE,
)
RESTARTS = (2, 5, 8)
"""Before these runs of the query the broker is killed and started again."""

FEATURES: Mapping[int, Sequence[str]] = {1: TV1_FEATURES, 2: ()}
"""What the broker is formatted with, by the version of its transactions."""

PARTITIONS = 4
LOOK_S = 1.0
PATIENCE_S = 600


class Pipeline:
    """A query that is killed again and again."""

    def __init__(self, broker: KafkaBroker, name: str, door: Door) -> None:
        self.broker = broker
        self.name = name
        self.folder = WORK / name
        self.target = f"late-{name}"
        self._door = door
        self._lives = 0
        self.folder.mkdir(parents=True)
        broker.create_topic(self.target, partitions=PARTITIONS)

    async def die(self, moment: str) -> None:
        """Run until the first batch reaches the crash point."""
        with Programs(self.folder) as programs:
            driver, *others = await self._start(programs, moment)
            await until(lambda: driver.was_killed, f"come to {moment}", driver, *others)

    async def live(self, is_done: Callable[[], bool]) -> None:
        """Run until everything is written."""
        with Programs(self.folder) as programs:
            started = await self._start(programs)
            await until(is_done, "copy everything", *started, pause_s=LOOK_S, patience_s=PATIENCE_S)

    async def _start(self, programs: Programs, moment: str = "") -> list[Program]:
        self._lives += 1
        settings = {
            "brokers": self.broker.address,
            "folder": str(self.folder),
            "source": "flights",
            "target": self.target,
            "sink": self.name,
        }
        return await Starter(programs, self.folder, str(self._lives)).start(self._door, settings, moment)


async def main(console: Console, *, door: Door, transactions: int) -> int:
    began_s = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    flights = data.read()
    expected = truth.late_departures(flights)
    with running_broker(WORK / "broker", features=FEATURES[transactions]) as broker:
        broker.create_topic("flights", partitions=PARTITIONS)
        console.print(f"Loading {flights.num_rows:,} flights into Kafka {broker.version}")
        audit.load(broker.address, "flights", flights)
        names = ("oncelog",) if door is Door.CONNECT else ("oncelog", "twin")
        findings = {name: await run(Pipeline(broker, name, door), expected, console) for name in names}
    title = f"by {door}, transactions of version {transactions}, Spark {version('pyspark')}"
    show(console, findings, f"{title}, {time.monotonic() - began_s:.0f} s")
    return 0 if findings["oncelog"].is_exact else 1


async def run(pipeline: Pipeline, expected: pa.Table, console: Console) -> Findings:
    """Kill a pipeline ten times, let it finish, and compare its output with the truth."""
    name, broker = pipeline.name, pipeline.broker
    for life, point in enumerate(KILLS):
        if life in RESTARTS:
            console.print(f"{name}: the broker is killed and started again")
            broker.restart()
        moment = point if name == "oncelog" else CrashPoint.SINK_DONE
        console.print(f"{name}: dies at {moment}")
        await pipeline.die(moment)
    console.print(f"{name}: lives")
    await pipeline.live(lambda: len(audit.read(broker.address, pipeline.target)) >= expected.num_rows)
    return audit.judge(expected, audit.read(broker.address, pipeline.target))


def show(console: Console, findings: dict[str, Findings], title: str) -> None:
    table = Table("pipeline", "kills", "late departures", "lost", "duplicated", title=title)
    names = {"oncelog": 'format("oncelog-kafka")', "twin": "a sink without transactions"}
    for name, found in findings.items():
        table.add_row(names[name], str(len(KILLS)), f"{found.expected:,}", f"{found.lost:,}", f"{found.duplicated:,}")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Flights through Kafka, exactly once, under kill -9.")
    parser.add_argument("--by", type=Door, choices=list(Door), default=Door.PYTHON, help="what starts the query")
    parser.add_argument("--transactions", type=int, choices=list(FEATURES), default=2, help="their version")
    options = parser.parse_args()
    sys.exit(command.run(partial(main, door=options.by, transactions=options.transactions)))
