"""The alerts: they name metrics that exist, Prometheus takes them, and a refusal fires one for ten minutes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oncelog.metrics import catalogue
from oncelog.metrics.alerts import ALERTS, render_rules
from tests.support.log.shell import Shell
from tests.support.servers.prometheus import promtool, require_prometheus

METRICS = {one.name: one for one in (*catalogue.EXPORTER, *catalogue.LOG, *catalogue.LEDGER, *catalogue.QUERY)}


def test_every_alert_is_on_metrics_that_name_it_and_the_other_way_round() -> None:
    named = {alert.name: set(re.findall(r"oncelog_\w+", alert.expr)) for alert in ALERTS}

    assert {metric for metrics in named.values() for metric in metrics} <= METRICS.keys()
    for_it = {alert: {one.name for one in METRICS.values() if one.alert == alert} for alert in named}
    assert for_it == named
    assert {one.alert for one in METRICS.values()} - {None} == named.keys()


def test_an_alert_speaks_of_labels_that_its_metrics_have() -> None:
    for alert in ALERTS:
        labels = {label for name in re.findall(r"oncelog_\w+", alert.expr) for label in METRICS[name].labels}
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= labels, alert.name


def test_the_catalogue_keeps_to_prometheus_conventions() -> None:
    assert len(METRICS) >= 30
    for name, metric in METRICS.items():
        assert re.fullmatch(r"oncelog(_[a-z]+)+", name), name
        assert name.endswith("_total") == (metric.kind is catalogue.MetricKind.COUNTER), name
        assert not re.search(r"_(ms|millis\w*|minutes|kib|mib)\b", name), name


@pytest.mark.slow
def test_prometheus_takes_the_rules_that_the_command_prints(tmp_path: Path) -> None:
    require_prometheus()
    printed = Shell(tmp_path / "no log")("exporter", "--rules")
    (tmp_path / "rules.yml").write_text(printed.stdout)

    checked = promtool("check", "rules", tmp_path / "rules.yml")

    assert printed.exit_code == 0
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alert", "series", "minutes"),
    [
        ("OncelogQueryFailed", "oncelog_query_failures_total", 10),
        ("OncelogBatchRefused", 'oncelog_sink_batches_total{result="refused"}', 10),
        ("OncelogParticipantsLost", "oncelog_sink_participants_rewritten_total", 60),
    ],
)
def test_the_first_of_a_kind_is_an_alert_and_quiet_minutes_end_it(
    alert: str, series: str, minutes: int, tmp_path: Path
) -> None:
    require_prometheus()
    (tmp_path / "rules.yml").write_text(render_rules(ALERTS))
    named = {"query": "q", "prefix": "p"}
    labels = ",".join(f'{name}="{value}"' for name, value in named.items())
    given = f"{series[:-1]},{labels}}}" if series.endswith("}") else f"{series}{{{labels}}}"
    (found,) = [one for one in ALERTS if one.name == alert]
    told = {"severity": found.severity, **named, **dict(re.findall(r'(\w+)="(\w+)"', series))}
    fires = {"exp_labels": told, "exp_annotations": _annotations(alert, **named)}

    def at(minute: int, *alerts: object) -> dict[str, object]:
        return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": alerts}

    values = {"series": given, "values": "_x3 1x100"}  # nothing for three minutes, and then 1 for a hundred more
    test = {"interval": "1m", "input_series": [values], "alert_rule_test": [at(2), at(5, fires), at(minutes + 5)]}
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": [test]}))

    tested = promtool("test", "rules", tmp_path / "test.yml")

    assert tested.returncode == 0, tested.stdout + tested.stderr


def _annotations(name: str, **labels: str) -> dict[str, str]:
    (alert,) = [alert for alert in ALERTS if alert.name == name]
    text = alert.summary
    for label, value in labels.items():
        text = text.replace(f"{{{{ $labels.{label} }}}}", value)
    return {"summary": text, "runbook_url": alert.runbook_url}
