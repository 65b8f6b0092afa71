"""A log with its traffic, its queries, and what watches them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

from pyspark.sql import SparkSession

import oncelog
import oncelog.spark
from flights.processes import Program, Programs
from oncelog.crash_points import CrashPoint
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog.testing import faults
from oncelog.testing.kafka_broker import running_broker
from oncelog_kafka.operations.metrics import ALERTS as KAFKA_ALERTS
from operations import query
from operations.pages import Pages
from operations.prometheus import Prometheus, hurried

DEMONSTRATIONS = Path(__file__).parents[1]
ONCELOG = (sys.executable, "-m", "oncelog")
TOPICS = ("flights", "fares", "tickets", "copies")
KAFKA_TOPICS = ("late", "brief")
"""Of the broker, each with the query of its name."""

DOOMED = {
    "copies": CrashPoint.ROUND_DECIDE,
    "delayed": CrashPoint.ROUND_DECIDED,
    "late": CrashPoint.ROUND_DECIDED,
    "brief": CrashPoint.ROUND_DECIDED,
}
"""Where the drivers are killed that wait for it."""

PAUSE_S = 0.1
PATIENCE_S = 300


def until(find: Callable[[], bool], what: str, within_s: int = PATIENCE_S) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: it is not, within that time.
    """
    deadline_s = time.monotonic() + within_s
    while not find():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {within_s} s for {what}")
        time.sleep(PAUSE_S)


@contextmanager
def printing_to(path: Path) -> Iterator[None]:
    """Let what processes that start in the block print as errors go to a file."""
    own = os.dup(sys.stderr.fileno())
    with path.open("wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    try:
        yield
    finally:
        os.dup2(own, sys.stderr.fileno())
        os.close(own)


class Place:
    """Everything that the demonstration runs; it ends with the block.

    Args:
        folder: an empty one.
        broker_version: of a Kafka broker that is started too; None for none.

    Attributes:
        brokers: its address, if there is one.
        queries: names of those that run.
        log: with the topics, open in this process.
        archive: the folder of a second log, on a disk of its own.
        sent: values that a producer was told are committed in the topic flights.
    """

    def __init__(self, folder: Path, broker_version: str | None = None) -> None:
        self.folder = folder
        self.brokers: str | None = None
        self.queries = ["copies", "delayed"]
        self._version = broker_version
        self.archive = folder / "archive"
        self.sent: list[bytes] = []
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(DEMONSTRATIONS), os.environ.get("PYTHONPATH", "")]),
        }
        self._closing = ExitStack()
        self._over = threading.Event()
        self._workers: list[threading.Thread] = []

    def __enter__(self) -> Place:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        closing = self._closing
        oncelog.open(self.archive).close()
        self.log = closing.enter_context(oncelog.open(self.folder / "log"))
        for topic in TOPICS:
            self.log.create_topic(topic)
        self._work(self._load)
        self._programs = closing.enter_context(Programs(self.folder))
        if self._version is not None:
            self._start_broker(self._version)
        with printing_to(self.folder / "spark.txt"):
            self.spark: SparkSession = query.session(self.folder)
        closing.callback(self.spark.stop)
        observation = closing.enter_context(oncelog.spark.observe(self.spark, listen="127.0.0.1:0"))
        for name in self.queries:
            self.run(name)
        self._doomed = {name: self._doom(name, DOOMED[name]) for name in self.queries}
        exporters = [
            self.export("log", "--path", str(self.folder / "log")),
            self.export("archive", "--path", str(self.archive)),
            self.export("ledger", "--znodes", str(self.folder / "ledger")),
        ]
        if self.brokers is not None:
            kafka = ("--brokers", self.brokers, "--ask-partitions", "none")
            exporters.append(self.export("kafka", *kafka, command=("kafka", "exporter")))
        urls = [observation.url or "", *exporters]
        self._watch([url.removeprefix("http://").removesuffix("/metrics") for url in urls])

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._closing.close()

    # What watches

    def _start_broker(self, version: str) -> None:
        broker = self._closing.enter_context(running_broker(self.folder / "broker", version=version))
        for name in KAFKA_TOPICS:
            broker.create_topic(name, partitions=1)
        self.brokers = broker.address
        self.queries += KAFKA_TOPICS
        self.environment["ONCELOG_KAFKA_BROKERS"] = broker.address
        (self.folder / query.BROKERS).write_text(broker.address)

    def export(self, name: str, *options: str, command: Sequence[str] = ("exporter",)) -> str:
        """Start an exporter; returns the URL of its page."""
        program = self.start(f"exporter of {name}", *ONCELOG, *command, *options, "--listen", "127.0.0.1:0")
        until(lambda: program.status is not None or program.printed("serving (.+)") is not None, f"the page of {name}")
        url = program.printed("serving (.+)")
        if url is None:
            raise program.failed("ended")
        return url

    def _watch(self, targets: list[str]) -> None:
        alerts = hurried((*ALERTS, *KAFKA_ALERTS))
        if shutil.which("prometheus") is None:
            self._watcher: Prometheus | Pages = Pages(targets, alerts)
        else:
            (self.folder / "prometheus").mkdir()
            prometheus = Prometheus(self.folder / "prometheus", targets, render_rules(alerts))
            self._watcher = self._closing.enter_context(prometheus.running())
        until(self._watcher.is_scraping, "the first scrape")

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return {labels["alertname"] for labels in self._watcher.firing()}

    # What runs

    def start(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> Program:
        """Start a program, which ends with the demonstration."""
        log = self.folder / f"{name.replace(' ', '-')}.txt"
        return self._programs.start(name, command, {**(environment or {}), **self.environment}, log)

    def run(self, name: str, *, checkpoint: str | None = None, topic: str | None = None) -> None:
        """Run a query in this process until it has copied what there is."""
        query.run(self.spark, self.folder, name, checkpoint=checkpoint, topic=topic)

    def kill(self, name: str) -> None:
        """Let the doomed driver of a query run its next batch, in which SIGKILL ends it."""
        program = self._doomed[name]
        (self.folder / f"{name}.go").touch()
        until(lambda: program.status is not None, f"the query {name} to be killed")
        if not program.was_killed:
            raise program.failed("was not killed")
        program.end_session()

    def _doom(self, name: str, point: StrEnum) -> Program:
        """Start a driver of a query in a process of its own, which SIGKILL ends at a point of its first batch."""
        killing = faults.killing_at(point, self.folder / f"{name}.killed")
        command = (sys.executable, "-m", "operations.query", name, str(self.folder))
        return self.start(f"query {name}", *command, environment=killing)

    def oncelog(self, line: str) -> None:
        """Run a command as its page of the runbook writes it: PLACE and /data/out are places of this machine."""
        words = line.replace("PLACE", str(self.folder / "ledger")).replace("/data/out", str(self.folder / "out"))
        command = [*ONCELOG, *shlex.split(words)[1:]]
        named = {} if "--znodes" in words else {"ONCELOG_PATH": str(self.folder / "log")}
        ended = subprocess.run(command, env={**self.environment, **named}, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{line} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")

    def read_on(self, group: str) -> None:
        """Let a consumer of the group read the flights from here on."""

        def work() -> None:
            with self.log.consumer(group_id=group) as consumer:
                consumer.subscribe(["flights"])
                while not self._over.is_set():
                    consumer.poll(timeout_ms=100)
                    consumer.commit()

        self._work(work)

    def stop_traffic(self) -> None:
        """End producers and consumers; what they sent is committed."""
        self._over.set()
        for worker in self._workers:
            worker.join()

    def _load(self) -> None:
        with self.log.producer(transactional_id="loader") as producer:
            producer.init_transactions()
            number = 0
            while not self._over.is_set():
                with producer.transaction():
                    producer.send("flights", b"%d" % number)
                self.sent.append(b"%d" % number)
                number += 1
                self._over.wait(PAUSE_S)

    def _work(self, work: Callable[[], None]) -> None:
        worker = threading.Thread(target=work, daemon=True)
        self._workers.append(worker)
        worker.start()
