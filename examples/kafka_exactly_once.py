"""Real flights through Kafka: a query that is killed ten times, a broker that is restarted three times, and an audit.

A broker is started from Maven's jars and loaded with the flights, in transactions; every fifth is sent once more and
aborted. A query looks for late departures and writes them to another topic. It dies by SIGKILL, driver and executor
together, at ten named moments of a micro-batch, and between some of its lives the broker is killed and started again.
Then librdkafka reads the topic as read_committed, and every row is compared with the CSV that the flights came from. A
twin without transactions dies as often.

    python examples/kafka_exactly_once.py        # or: make run-kafka

Exits with 1 unless the topic is exactly the truth. What the runs leave is in build/kafka.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flights import data, truth
from kafka_flights import audit
from kafka_flights.audit import Findings
from oncelog.crash_points import CrashPoint
from oncelog.testing.kafka_broker import KafkaBroker, running_broker
from oncelog_kafka.crash_points import KafkaCrashPoint

ROOT = Path(__file__).resolve().parents[1]
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
"""Before these lives of the query the broker is killed and started again."""

BROKER_VERSION = "4.2.0"
"""Of 4.3.0 and 4.3.1 an only broker that is killed may leave out the last markers of transactions (KAFKA-20734)."""

PARTITIONS = 4
PATIENCE_S = 600


class Pipeline:
    """A query that is killed again and again."""

    def __init__(self, broker: KafkaBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.folder = WORK / name
        self.target = f"late-{name}"
        self._lives = 0
        self.folder.mkdir(parents=True)
        broker.create_topic(self.target, partitions=PARTITIONS)

    def die(self, moment: str) -> None:
        """Live until the first batch comes to the moment."""
        process = self._start(moment)
        if process.wait(PATIENCE_S) != -signal.SIGKILL:
            raise SystemExit(f"{self.name} ended by itself: see {self.folder}")

    def live(self, is_done: Callable[[], bool]) -> None:
        """Live until everything is there."""
        process = self._start("")
        deadline = time.monotonic() + PATIENCE_S
        while not is_done():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not come to its end: see {self.folder}")
            time.sleep(1)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, moment: str) -> subprocess.Popen[bytes]:
        self._lives += 1
        settings = {
            "brokers": self.broker.address,
            "folder": str(self.folder),
            "source": "flights",
            "target": self.target,
            "sink": self.name,
            "crash_point": moment,
            "mark": str(self.folder / f"{self._lives}.mark"),
        }
        path = os.pathsep.join([str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])
        with (self.folder / f"{self._lives}.out").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "kafka_flights.query", json.dumps(settings)],
                env={**os.environ, "PYTHONPATH": path},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def main(console: Console) -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    flights = data.read()
    expected = truth.late_departures(flights)
    with running_broker(WORK / "broker", version=BROKER_VERSION) as broker:
        broker.create_topic("flights", partitions=PARTITIONS)
        console.print(f"Loading {flights.num_rows:,} flights into Kafka {broker.version}")
        audit.load(broker.address, "flights", flights)
        findings = {name: run(broker, name, expected.num_rows, console) for name in ("oncelog", "twin")}
    show(console, findings)
    return 0 if findings["oncelog"].is_exact else 1


def run(broker: KafkaBroker, name: str, rows: int, console: Console) -> Findings:
    """Kill a pipeline ten times, let it come to its end, and compare what it left with the truth."""
    pipeline = Pipeline(broker, name)
    for life, point in enumerate(KILLS):
        if life in RESTARTS:
            console.print(f"{name}: the broker is killed and started again")
            broker.restart()
        moment = str(point) if name == "oncelog" else "halfway"
        console.print(f"{name}: dies at {moment}")
        pipeline.die(moment)
    console.print(f"{name}: lives")
    pipeline.live(lambda: len(audit.read(broker.address, pipeline.target)) >= rows)
    return audit.judge(truth.late_departures(data.read()), audit.read(broker.address, pipeline.target))


def show(console: Console, findings: dict[str, Findings]) -> None:
    table = Table("pipeline", "kills", "late departures", "lost", "duplicated")
    names = {"oncelog": 'format("oncelog-kafka")', "twin": "a sink without transactions"}
    for name, found in findings.items():
        table.add_row(names[name], str(len(KILLS)), f"{found.expected:,}", f"{found.lost:,}", f"{found.duplicated:,}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(Console()))
