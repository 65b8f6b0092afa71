"""No alert fires while all goes well: queries, a producer and a group at work, and the rules as they are shipped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog
import oncelog.spark
import oncelog_files
import oncelog_kafka
from oncelog.cli import main
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.spark.logs import close_logs
from oncelog.spark.observing import observe
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.log.logs import started
from tests.support.log.logs import values as values_in_log
from tests.support.log.shell import Shell, serving
from tests.support.servers.kafka import STEADY, KafkaBroker, require_shims, running_broker
from tests.support.servers.prometheus import Prometheus, require_prometheus, running_prometheus
from tests.support.spark.queries import PATIENCE_S, stream

pytestmark = pytest.mark.slow

ROUNDS = 8
"""How often the queries are started again, and the log is collected."""

ROUND_S = 15

LONGEST_S = 60
"""How long an alert may be pending. The rules have more patience, and what is true for so long may be true for longer;
a batch that is decided and not visible yet is, for a moment."""


class Peace:
    """A log with a producer and a group, and queries from it into a topic, into Kafka, and from there into files.

    Attributes:
        sent: what the producer was told is committed.
    """

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.log = oncelog.open(folder / "log")
        for topic in ("in", "out"):
            self.log.create_topic(topic)
        broker.create_topic("copied", partitions=2)
        self.sent: list[str] = []
        self._over = threading.Event()
        self._workers = [threading.Thread(target=work) for work in (self._write, self._read)]

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """The producer and the group, until the end of the block."""
        for worker in self._workers:
            worker.start()
        try:
            yield
        finally:
            self._over.set()
            for worker in self._workers:
                worker.join()

    def _write(self) -> None:
        with started(self.log) as producer:
            while not self._over.wait(0.2):
                value = f"{len(self.sent):06d}"
                with producer.transaction():
                    producer.send("in", value.encode())
                self.sent.append(value)

    def _read(self) -> None:
        with self.log.consumer(group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["in"])
            while not self._over.is_set():
                consumer.poll(timeout_ms=200)
                consumer.commit()

    @contextmanager
    def queries(self) -> Iterator[None]:
        """All three, until the end of the block, which may stop them amid a batch."""
        running = [
            self._start("into-log", stream(self.spark, self.log), self._into_log()),
            self._start("into-kafka", stream(self.spark, self.log), self._into_kafka()),
            self._start("into-files", self._kafka_stream(), self._into_files()),
        ]
        try:
            yield
        finally:
            for query in running:
                query.stop()
        assert [query.exception() for query in running] == [None] * len(running)

    def _start(self, name: str, df: DataFrame, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
        writer = df.select("value").writeStream.foreachBatch(sink).queryName(name)
        checkpoint = str(self.folder / "checkpoints" / name)
        return writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()

    @property
    def _cluster(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.address}

    def _kafka_stream(self) -> DataFrame:
        options = {**self._cluster, "subscribe": "copied", "startingOffsets": "earliest"}
        return self.spark.readStream.format("oncelog-kafka").options(**options).load()

    def _into_log(self) -> Callable[[DataFrame, int], None]:
        return oncelog.spark.sink(path=self.log.path, topic="out")

    def _into_kafka(self) -> Callable[[DataFrame, int], None]:
        return oncelog_kafka.sink(**self._cluster, topic="copied")

    def _into_files(self) -> Callable[[DataFrame, int], None]:
        return oncelog_files.sink(path=str(self.folder / "files"), znodes=str(self.folder / "ledger"))

    def is_copied(self) -> bool:
        """Whether everything has come to the files, which are behind all else but the topic."""
        return len(self.in_log()) >= len(self.sent) and len(self.in_files()) >= len(self.sent)

    def in_log(self) -> list[str]:
        return sorted((value or b"").decode() for value in values_in_log(self.log, topic="out"))

    def in_files(self) -> list[str]:
        rows = oncelog_files.read(self.spark, str(self.folder / "files")).collect()
        return sorted(bytes(row["value"]).decode() for row in rows)

    @contextmanager
    def exporters(self) -> Iterator[list[str]]:
        """The addresses of the pages of the log, the files' ledger and the cluster."""
        commands = (
            ("--path", self.log.path, "exporter"),
            ("--znodes", str(self.folder / "ledger"), "exporter"),
            ("kafka", "--brokers", self.broker.address, "exporter", "--ask-partitions", "10s"),
        )
        with ExitStack() as serve:
            pages = [serve.enter_context(serving(*command, "--listen", "127.0.0.1:0")) for command in commands]
            yield [url for _, url in pages]


class Watch:
    """What fired, and what was pending for how long.

    Attributes:
        fired: labels of the alerts that did.
        pending_s: the longest time of each alert, by its name.
    """

    def __init__(self, prometheus: Prometheus) -> None:
        self.fired: set[str] = set()
        self.pending_s: dict[str, float] = {}
        self._prometheus = prometheus
        self._since: dict[tuple[str, str], float] = {}

    def look(self) -> bool:
        """Look once; whether nothing is even pending."""
        alerts = self._prometheus.alerts()
        for one in alerts:
            name = one["labels"]["alertname"]
            if one["state"] == "firing":
                self.fired.add(str(one["labels"]))
            since_s = self._since.setdefault((str(one["labels"]), one["activeAt"]), time.monotonic())
            self.pending_s[name] = max(self.pending_s.get(name, 0), time.monotonic() - since_s)
        return not alerts

    def look_for(self, seconds: float) -> None:
        """Look again and again."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.look()
            time.sleep(0.5)


@pytest.mark.walk("alerts")
def test_no_alert_fires_while_queries_work_and_are_started_again(spark: SparkSession, tmp_path: Path) -> None:
    require_prometheus()
    require_shims()
    rules = CliRunner().invoke(main, ["kafka", "exporter", "--rules"]).stdout
    with ExitStack() as running:
        broker = running.enter_context(running_broker(tmp_path / "kafka", settings=STEADY))
        peace = Peace(spark, broker, tmp_path)
        running.enter_context(closing(peace.log))
        running.callback(close_ledgers)
        running.callback(close_logs)
        observation = running.enter_context(observe(spark, listen="127.0.0.1:0"))
        with peace.traffic():
            with peace.queries():
                until(lambda: any((tmp_path / "files").rglob("*.parquet")), within_s=PATIENCE_S)
            urls = [observation.url or "", *running.enter_context(peace.exporters())]
            pages = [url.removeprefix("http://").removesuffix("/metrics") for url in urls]
            prometheus = running.enter_context(running_prometheus(tmp_path / "prometheus", pages, rules))
            until(prometheus.is_scraping)
            watch = Watch(prometheus)
            for _ in range(ROUNDS):
                with peace.queries():
                    watch.look_for(ROUND_S)
                assert Shell(tmp_path / "log")("gc").exit_code == 0
        with peace.queries():
            until(peace.is_copied, within_s=PATIENCE_S)
            watch.look()
            assert not watch.fired
            until(watch.look, tell=lambda: watch.pending_s)

        assert {name for name, seconds in watch.pending_s.items() if seconds > LONGEST_S} == set()
        assert peace.in_log() == peace.in_files() == sorted(values(broker, "copied")) == peace.sent
