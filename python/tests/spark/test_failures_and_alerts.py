"""`make demo-operations`: ten failures fire their alerts and no other, and the commands of their pages mend them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.metrics import catalogue as c
from oncelog.metrics.alerts import ALERTS
from oncelog.metrics.exposition import Address, CollectorRegistry, Instruments, served
from operations.failures import FAILURES, ON_KAFKA, Failure
from operations.pages import Pages
from operations.place import KAFKA_TOPICS
from operations.prometheus import hurried
from tests.support.docs.blocks import ROOT
from tests.support.servers.prometheus import require_prometheus
from tests.support.spark.spark_home import environment

PROGRAM = ROOT / "examples" / "demonstrations" / "failures_and_alerts.py"
ALL = (*FAILURES, *ON_KAFKA)


def test_the_command_that_mends_a_failure_stands_on_its_page() -> None:
    assert len(FAILURES) == 10
    for failure in ALL:
        page = (ROOT / failure.page).read_text()
        assert failure.command is None or failure.command in page, failure.what
        assert failure.command or failure.follow, failure.what


def test_the_failures_have_alerts_of_their_own() -> None:
    assert len({failure.alerts[0] for failure in FAILURES}) == len(FAILURES)


def test_no_alert_of_the_demonstration_waits_for_minutes() -> None:
    patient = {alert.name for alert in hurried(ALERTS) if re.search(r"\d{3,}|\d+[mh]\b", alert.expr)}
    assert patient == {"OncelogUpkeepMissing"}  # which it does not stage
    assert {alert.lasts for alert in hurried(ALERTS)} == {"0s"}


def test_without_a_prometheus_numbers_beyond_a_limit_and_counters_that_grow_are_seen_on_the_pages() -> None:
    instruments = Instruments((*c.EXPORTER, *c.LOG, *c.QUERY))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(instruments)
    instruments.put(c.UP, 1)
    instruments.put(c.TRANSACTIONS, 5, "open")
    instruments.put(c.TRANSACTIONS, 0, "overdue")
    instruments.add(c.SINK_BATCHES, 1, "q", "log", "p", "written")
    instruments.put(c.SOURCE_BEHIND, 0, "q", "0")
    with served(registry, Address("127.0.0.1", 0)) as url:
        pages = Pages([url.removeprefix("http://").removesuffix("/metrics")], hurried(ALERTS))
        assert pages.firing() == []

        instruments.put(c.UP, 0)
        instruments.put(c.TRANSACTIONS, 1, "overdue")
        instruments.add(c.SINK_BATCHES, 1, "q", "log", "p", "written")
        instruments.add(c.SINK_BATCHES, 1, "q", "log", "p", "refused")
        instruments.put(c.SOURCE_BEHIND, 7, "q", "0")  # a batch is on its way, after a moment without any lag
        fired = {one["alertname"] for one in pages.firing()}

    assert fired == {"OncelogExporterCannotRead", "OncelogTransactionHangs", "OncelogBatchRefused"}


STAGED_TOGETHER = 5
PARTS = [ALL[at : at + STAGED_TOGETHER] for at in range(0, len(ALL), STAGED_TOGETHER)]


@pytest.mark.programs
@pytest.mark.walk
@pytest.mark.parametrize("failures", PARTS, ids=[part[0].alerts[0] for part in PARTS])
def test_the_demonstration_shows_and_mends_each_and_loses_nothing(
    failures: tuple[Failure, ...], tmp_path: Path
) -> None:
    require_prometheus()
    alerts = [failure.alerts[0] for failure in failures]

    command = [sys.executable, str(PROGRAM), str(tmp_path / "work"), "--only", *alerts]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    is_on_kafka = "\n  a Kafka broker\n" in ended.stdout
    staged = [failure for failure in failures if is_on_kafka or failure not in ON_KAFKA]
    assert ended.stdout.count("over     no alert fires") == len(staged)
    assert re.findall(r"(\w+) +\d+ rows: lost 0, twice or not committed 0", ended.stdout) == [
        "flights",
        "copies",
        "files",
        *(KAFKA_TOPICS if is_on_kafka else ()),
    ]
