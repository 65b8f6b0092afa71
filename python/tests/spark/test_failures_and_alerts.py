"""`make demo WHAT=operations`: ten failures fire their alerts and no others, and their pages' commands fix them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.metrics import catalogue as c
from oncelog.metrics.alerts import ALERTS
from oncelog.metrics.exposition import Address, CollectorRegistry, Instruments, served
from operations.failures import FAILURES, ON_KAFKA, PAGES, Failure
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


IN_TESTS = {
    "OncelogUpkeepMissing": (
        "python/tests/unit/metrics/test_alerts_fire.py",
        "test_each_failure_fires_its_alerts_until_its_page_mends_it_and_a_quiet_log_fires_none",
        "a log is without upkeep when it is a day old, and the demonstration's has begun just now",
    ),
    "OncelogKafkaTransactionHangs": (
        "connectors/kafka/tests/test_alerts_on_brokers.py",
        "test_what_a_coordinator_does_not_abort_in_time_is_an_alert_until_the_operator_aborts_it",
        "a broker must not look for time-outs, and another failure waits until it has",
    ),
    "OncelogKafkaMarkerLeftOut": (
        "connectors/kafka/tests/test_alerts_on_brokers.py",
        "test_a_broker_leaves_out_the_marker_of_a_partition_without_a_leader",
        "it takes two brokers, of a version with the bug, and a kill between two steps of a commit",
    ),
}
"""The alerts that no failure of the demonstration fires: the file and the test that stages them, and why it does."""


def test_every_alert_is_fired_by_a_failure_or_by_a_test_that_is_named_here() -> None:
    fired = {alert for failure in ALL for alert in failure.alerts}

    assert fired | IN_TESTS.keys() == PAGES.keys()
    assert not fired & IN_TESTS.keys()
    for alert, (file, test, _) in IN_TESTS.items():
        text = (ROOT / file).read_text()
        assert f"def {test}(" in text
        assert f'"{alert}"' in text


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


STAGED_TOGETHER = 3
PARTS = [ALL[at : at + STAGED_TOGETHER] for at in range(0, len(ALL), STAGED_TOGETHER)]


@pytest.mark.slow
@pytest.mark.walk("alerts")
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
