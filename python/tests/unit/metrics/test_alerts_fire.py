"""Each failure of a log fires its alerts in a real Prometheus, until what its page of the runbook says has mended it.

The failures are staged by a clock that stands in the past, so that the alerts are as they are shipped: only how long
something must be true, and the window in which a lag grows, are short here.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import oncelog
from oncelog.batches.attempt import Batch
from oncelog.batches.run import BatchDriver
from oncelog.batches.two_functions import OnceTarget
from oncelog.crash_points import CrashPoint
from oncelog.metrics.alerts import ALERTS, Alert, render_rules
from oncelog.metrics.exposition import Address, CollectorRegistry, ReadingCollector, served
from oncelog.metrics.sources import LogSource, Reopening
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.znodes.clock import wall_ms
from tests.support.docs.blocks import ROOT, programs
from tests.support.harness.waiting import until
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, DrivenTime, LogWorld, send, started, tp, write_open
from tests.support.log.rounds import request
from tests.support.log.shell import Shell
from tests.support.servers.prometheus import Prometheus, require_prometheus, running_prometheus

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SYMPTOMS = ROOT / "docs" / "operations" / "symptoms"
PAGES = {alert.name: SYMPTOMS / f"{alert.page}.md" for alert in ALERTS}

STANDS_STILL, HANGS = "OncelogReadersStandStill", "OncelogTransactionHangs"


def at_once(alert: Alert) -> Alert:
    """The alert without its patience."""
    return replace(alert, lasts="0s", expr=re.sub(r"\[15m\]", "[5s]", alert.expr))


@dataclass(frozen=True)
class Failure:
    """What was staged.

    Attributes:
        alerts: what fires. The first is the one whose page mends it.
        mend: what the page tells its reader to do, if that is not a command.
    """

    alerts: tuple[str, ...]
    mend: Callable[[], object] | None = None

    def mended(self, shell: Shell) -> None:
        """As its page says: by its commands, or else by hand."""
        if self.mend is not None:
            self.mend()
            return
        for words in commands(PAGES[self.alerts[0]]):
            done = shell(*words)
            assert done.exit_code == 0, (words, done.output)


def commands(page: Path) -> list[list[str]]:
    """What the blocks of a page run."""
    lines = [line for block in programs(page) for line in block.code.splitlines()]
    found = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("oncelog ")]
    assert found, page
    return found


@contextmanager
def page_of(folder: Path) -> Iterator[str]:
    """The address of the page that an exporter serves of a log."""
    source = Reopening(lambda: LogSource(oncelog.open(folder, create=False)))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector := ReadingCollector(source.read))
    with served(registry, Address("127.0.0.1", 0)) as url:
        yield url.removeprefix("http://").removesuffix("/metrics")
    collector.close()
    source.close()


class Elsewhere:
    """A store of the user's own, and a query into it whose driver dies behind a decision."""

    def __init__(self) -> None:
        self._tokens: list[str] = []

    def run(self, log: oncelog.Log, run_id: str) -> None:
        store, written = log.services.store, self._tokens
        target = OnceTarget(store, lambda rows, token: written.append(token), written.__contains__)
        BatchDriver(target).run(Batch(request(0, run_id, prefix="elsewhere"), None))

    def die(self, log: oncelog.Log) -> None:
        with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
            self.run(log, "run-1")

    def restart(self, folder: Path) -> None:
        with oncelog.open(folder) as log:
            self.run(log, "run-2")


def staged(folder: Path) -> list[Failure]:
    """A log that began yesterday, with a failure of each kind."""
    now_ms = wall_ms()
    world = LogWorld(folder, "sqlite", time=DrivenTime(now_ms - 25 * HOUR_MS))

    def ago(duration_ms: int) -> None:
        world.time.sleep_ms(now_ms - duration_ms - world.time.now_ms())

    for topic in (TOPIC, "fares", "tickets", "seats", "gates"):
        world.log.create_topic(topic, partitions=2)
    ago(2 * HOUR_MS)
    write_open(prepared := started(world.log, "loader-1"), b"42", topic="fares")
    prepared.prepare_transaction()
    open_round(world.log)
    elsewhere = Elsewhere()
    elsewhere.die(world.log)
    ago(20 * MINUTE_MS)
    write_open(started(world.log, "loader-0", transaction_timeout_ms=15 * MINUTE_MS), b"42", topic="tickets")
    ago(5 * MINUTE_MS)
    write_open(started(world.log, "loader-2", transaction_timeout_ms=MINUTE_MS), b"42", topic="seats")
    ago(0)
    with world.log.consumer(group_id="restored") as consumer:
        consumer.commit({tp(topic="gates"): 1000})
    world.close()
    return [
        Failure(("OncelogPreparedForLong", STANDS_STILL)),
        Failure(("OncelogBatchUndecided", STANDS_STILL, HANGS)),
        Failure((STANDS_STILL, HANGS)),
        Failure(("OncelogGroupBeyondLog",)),
        Failure(("OncelogBatchNotVisible",), lambda: elsewhere.restart(folder)),
        Failure((HANGS, "OncelogUpkeepMissing")),  # `oncelog gc` mends both
    ]


@contextmanager
def traffic(log: oncelog.Log) -> Iterator[None]:
    """A producer that writes transactions, and a group that reads them, until the end of the block."""
    over = threading.Event()

    def work() -> None:
        with started(log) as producer, log.consumer(group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TOPIC])
            while not over.is_set():
                with producer.transaction():
                    producer.send(TOPIC, b"a")
                consumer.poll()
                consumer.commit()
                over.wait(0.2)  # nearly always the group has read everything

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


@contextmanager
def falling_behind(log: oncelog.Log) -> Iterator[Failure]:
    """A group that stopped while a producer goes on; what mends it is that the group reads again."""
    log.admin.alter_offsets("delays", {tp(): 0})
    over, is_reading = threading.Event(), threading.Event()

    def work() -> None:
        producer = log.producer()
        with log.consumer(group_id="delays") as consumer:
            consumer.subscribe([TOPIC])
            while not over.is_set():
                send(producer, b"a")
                if is_reading.is_set():
                    consumer.poll()
                    consumer.commit()
                over.wait(0.2)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield Failure(("OncelogLagGrows",), is_reading.set)
    finally:
        over.set()
        worker.join()


def test_each_failure_fires_its_alerts_until_its_page_mends_it_and_a_quiet_log_fires_none(tmp_path: Path) -> None:
    require_prometheus()
    troubled, lagging, quiet, away = (tmp_path / name for name in ("troubled", "lagging", "quiet", "away"))
    failures = staged(troubled)
    rules = render_rules(map(at_once, ALERTS))
    with ExitStack() as stack:
        logs = [stack.enter_context(oncelog.open(folder)) for folder in (lagging, quiet)]
        for log in logs:
            log.create_topic(TOPIC)
        oncelog.open(away).close()
        pages = {folder: stack.enter_context(page_of(folder)) for folder in (troubled, lagging, quiet, away)}
        stack.enter_context(traffic(logs[1]))
        prometheus = stack.enter_context(running_prometheus(tmp_path / "prometheus", list(pages.values()), rules))
        until(prometheus.is_scraping)
        away.rename(tmp_path / "not mounted")
        failures += [
            Failure(("OncelogExporterCannotRead",), lambda: (tmp_path / "not mounted").rename(away)),
            stack.enter_context(falling_behind(logs[0])),
        ]
        seen = Seen(prometheus, pages[quiet])
        for at, failure in enumerate(failures):
            seen.fires({alert for left in failures[at:] for alert in left.alerts})
            failure.mended(Shell(troubled))
        seen.fires(set())

    assert seen.of_quiet == set()


class Seen:
    """What fires, and what has fired of the quiet log."""

    def __init__(self, prometheus: Prometheus, quiet: str) -> None:
        self._prometheus = prometheus
        self._quiet = quiet
        self.of_quiet: set[str] = set()

    def fires(self, alerts: set[str]) -> None:
        """Wait until exactly these do."""
        until(lambda: self._firing() == alerts, tell=lambda: (sorted(self._firing()), sorted(alerts)))

    def _firing(self) -> set[str]:
        found = self._prometheus.firing()
        self.of_quiet |= {labels["alertname"] for labels in found if labels["instance"] == self._quiet}
        return {labels["alertname"] for labels in found}
