"""An exporter's page, a real Prometheus that reads it, and the rules that are shipped, but for how long they wait."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from driven_batches import World
from oncelog.cli import main
from oncelog.metrics.alerts import ALERTS, render_rules
from oncelog.metrics.exposition import Address, CollectorRegistry, ReadingCollector, served
from oncelog_kafka.operations import metrics as k
from tests.support.docs.blocks import ROOT
from tests.support.harness.waiting import until
from tests.support.servers.prometheus import Prometheus, running_prometheus

RULES = render_rules([replace(alert, lasts="0s") for alert in (*ALERTS, *k.ALERTS)])
SYMPTOMS = ROOT / "docs" / "operations" / "symptoms"


@contextmanager
def watching(folder: Path, source: k.KafkaSource) -> Iterator[Prometheus]:
    """A Prometheus that evaluates the alerts on what the source reads; closes the source."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector := ReadingCollector(source.read))
    with served(registry, Address("127.0.0.1", 0)) as url:
        page = url.removeprefix("http://").removesuffix("/metrics")
        with running_prometheus(folder, [page], RULES) as prometheus:
            until(prometheus.is_scraping)
            yield prometheus
    collector.close()
    source.close()


def names(prometheus: Prometheus) -> set[str]:
    """The alerts that fire now."""
    return {one["alertname"] for one in prometheus.firing()}


def check_page_says(page: str, command: str) -> None:
    """Whether a page of the runbook tells its reader to run this."""
    assert command in (SYMPTOMS / f"{page}.md").read_text()


def run_as_the_page_says(page: str, command: str, world: World, ledger: Path) -> None:
    """Run a command of a page for the world's sink, where the page has an example's prefix."""
    check_page_says(page, command)
    _, kafka, *words = shlex.split(command.replace("delayed", world.prefix))
    place = ["--brokers", world.broker.address, "--znodes", str(ledger)]
    done = CliRunner().invoke(main, [kafka, *place, *words])
    assert done.exit_code == 0, done.output
