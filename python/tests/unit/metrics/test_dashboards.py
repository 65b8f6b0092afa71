"""The dashboard: every metric of the catalogue is on a panel, and Prometheus evaluates what the panels ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import oncelog
from oncelog.cli import main
from oncelog.metrics import catalogue as c
from oncelog.metrics import dashboards
from oncelog.metrics.alerts import ALERTS
from oncelog.metrics.dashboards import RATE_WINDOW, render_dashboard
from oncelog.metrics.exposition import Address, CollectorRegistry, Instruments, ReadingCollector, served
from oncelog.metrics.sources import LogSource
from tests.support.harness.waiting import until
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, send, started, tp
from tests.support.servers.prometheus import require_prometheus, running_prometheus

METRICS = {one.name: one for one in (*c.EXPORTER, *c.LOG, *c.LEDGER, *c.QUERY, *c.STORE)}
ALERTED = {name for alert in ALERTS for name in re.findall(r"oncelog_\w+", alert.expr)}
ABSENT_HERE = {c.READ_ERRORS.name}
"""The page of a log that can be read has none."""


def panels(kind: str = "timeseries") -> list[dict[str, Any]]:
    return [panel for panel in json.loads(render_dashboard())["panels"] if panel["type"] == kind]


def asked(panel: Mapping[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def named(expr: str) -> set[str]:
    return {re.sub(r"_bucket$", "", name) for name in re.findall(r"oncelog_\w+", expr)}


def test_every_metric_has_a_panel_and_no_panel_asks_for_another() -> None:
    found = [name for panel in panels() for name in {name for expr in asked(panel) for name in named(expr)}]

    assert sorted(found) == sorted(METRICS)


def test_what_alerts_watch_is_on_top_with_its_alert_and_its_page() -> None:
    top = panels()[: len(ALERTED)]

    assert {name for panel in top for expr in asked(panel) for name in named(expr)} == ALERTED
    described = {tuple(panel["description"].split("\n\n")[1:]) for panel in top}
    assert described == {(f"Alert {one.name}: {one.expr}", f"Runbook: {one.runbook_url}") for one in ALERTS}


def test_a_panel_links_to_its_page_once_the_repository_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(panel["links"] for panel in panels())

    monkeypatch.setattr(dashboards, "REPOSITORY", "https://forge.example/oncelog")

    linked = {link["url"] for panel in panels() for link in panel["links"]}
    assert linked == {alert.runbook_url for alert in ALERTS}


def test_the_number_of_an_alert_is_a_line_on_its_panel() -> None:
    (panel,) = [panel for panel in panels() if asked(panel) == [c.UNDECIDED_AGE.name]]

    assert panel["fieldConfig"]["defaults"] == {
        "unit": "s",
        "custom": {"thresholdsStyle": {"mode": "line"}},
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": "green", "value": None}, {"color": "red", "value": 900}],
        },
    }


def test_panels_stand_beside_each_other_and_not_on_each_other() -> None:
    everything = json.loads(render_dashboard())["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in everything)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in everything}) == len(everything)


def test_the_reader_chooses_the_prometheus_of_every_panel() -> None:
    document = json.loads(render_dashboard())

    assert [one["type"] for one in document["templating"]["list"]] == ["datasource"]
    variable = f"${{{document['templating']['list'][0]['name']}}}"
    assert {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]} == {variable}


def test_labels_in_a_legend_are_labels_of_the_metric() -> None:
    for panel in panels():
        for target in panel["targets"]:
            (metric,) = [METRICS[name] for name in named(target["expr"])]
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown == set(metric.labels or ["instance"])
            assert "instance" not in shown or "sum" not in target["expr"]  # a sum has no instance


def test_the_command_prints_it_and_ends() -> None:
    printed = CliRunner().invoke(main, ["exporter", "--dashboard"])

    assert (printed.exit_code, printed.stdout) == (0, render_dashboard() + "\n")


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[list[str]]:
    """Addresses of a log's page and of a driver's, with a value of every metric but those of failed reads."""
    queries = CollectorRegistry(auto_describe=False)
    queries.register(instruments := Instruments((*c.QUERY, *c.STORE)))
    for metric in (*c.QUERY, *c.STORE):
        note = instruments.observe if metric.kind is c.MetricKind.HISTOGRAM else instruments.add
        note(metric, 1, *metric.labels)
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC, partitions=2)
        send(log.producer(), b"a")
        log.admin.alter_offsets("readers", {tp(): 0})
        started(log)
        open_round(log, 0).decide()
        collector = ReadingCollector(LogSource(log).read)
        of_log = CollectorRegistry(auto_describe=False)
        of_log.register(collector)
        with served(queries, Address("127.0.0.1", 0)) as one, served(of_log, Address("127.0.0.1", 0)) as other:
            yield [url.removeprefix("http://").removesuffix("/metrics") for url in (one, other)]
        collector.close()


@pytest.mark.slow
def test_prometheus_evaluates_what_the_panels_ask_and_finds_series(pages: list[str], tmp_path: Path) -> None:
    require_prometheus()
    exprs = {expr.replace(RATE_WINDOW, "1m") for panel in panels() for expr in asked(panel)}

    with running_prometheus(tmp_path / "prometheus", pages, "groups: []") as prometheus:
        until(
            lambda: all(
                prometheus.evaluated(f"count_over_time({name}[1m]) > 1")[1] for name in (c.UP.name, c.QUERY_ACTIVE.name)
            )
        )
        found = {expr: prometheus.evaluated(expr) for expr in exprs}

    assert {kind for kind, _ in found.values()} == {"vector"}
    empty = {name for expr, (_, series) in found.items() if series == 0 for name in named(expr)}
    assert empty == ABSENT_HERE
