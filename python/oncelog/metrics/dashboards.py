"""Dashboards for Grafana, made from the catalogue: a panel for every metric, those that alerts are on first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from oncelog.metrics import catalogue
from oncelog.metrics.alerts import ALERTS, Alert
from oncelog.metrics.catalogue import Metric, MetricKind
from oncelog.version import REPOSITORY

SCHEMA_VERSION: Final = 39
"""Of Grafana 11, which later ones migrate by themselves."""

WIDTH, PANEL_WIDTH, PANEL_HEIGHT = 24, 8, 7
"""On Grafana's grid, which has 24 columns."""

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
"""The Prometheus that the reader chooses at the top of the dashboard."""

RATE_WINDOW: Final = "$__rate_interval"
"""Grafana fills it in: at least four scrapes."""

QUANTILES: Final = (0.5, 0.95)

UNITS: Final = {"seconds": "s", "bytes": "bytes"}
"""Grafana's, by the last word of a metric's name."""

THRESHOLD = re.compile(r"(\w+) ([<>]) (\d+)")
"""An alert by one number, which is drawn as a line."""

SECTIONS: Final = (
    ("Exporter", catalogue.EXPORTER),
    ("Log", catalogue.LOG),
    ("Ledgers", catalogue.LEDGER),
    ("Queries", catalogue.QUERY),
    ("Stores", catalogue.STORE),
)


def render_dashboard(
    title: str = "oncelog",
    sections: Sequence[tuple[str, Sequence[Metric]]] = SECTIONS,
    alerts: Iterable[Alert] = ALERTS,
) -> str:
    """A dashboard, as the JSON that Grafana imports.

    Args:
        title: of the dashboard; its uid follows from it.
        sections: titles of rows, and the metrics of each.
        alerts: those that are on the metrics: the panels name them, and link to their pages of the runbook.
    """
    by_name = {alert.name: alert for alert in alerts}
    alerted = [metric for _, metrics in sections for metric in metrics if metric.alert is not None]
    rest = [(name, [metric for metric in metrics if metric.alert is None]) for name, metrics in sections]
    return json.dumps(
        {
            "title": title,
            "uid": title.lower().replace(" ", "-"),
            "schemaVersion": SCHEMA_VERSION,
            "tags": ["oncelog"],
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
            "panels": list(_panels([("What alerts watch", alerted), *rest], by_name)),
        },
        indent=2,
    )


def _panels(rows: Iterable[tuple[str, Sequence[Metric]]], alerts: Mapping[str, Alert]) -> Iterator[dict[str, Any]]:
    """The rows, each with its panels below it."""
    ids, top = count(1), 0
    for title, metrics in rows:
        yield {"id": next(ids), "type": "row", "title": title, "collapsed": False, "gridPos": _place(0, top, WIDTH, 1)}
        top += 1
        for at, metric in enumerate(metrics):
            down, right = divmod(at * PANEL_WIDTH, WIDTH)
            place = _place(right, top + down * PANEL_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT)
            yield {"id": next(ids), "gridPos": place, **_panel(metric, alerts.get(metric.alert or ""))}
        top += -(-len(metrics) * PANEL_WIDTH // WIDTH) * PANEL_HEIGHT


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(metric: Metric, alert: Alert | None) -> dict[str, Any]:
    """One metric over time, with the line above or below which its alert fires."""
    name = metric.name.removeprefix("oncelog_").removesuffix("_total").replace("_", " ")
    shown = ", per second" if metric.kind is MetricKind.COUNTER else ", as the time since" if _is_time(metric) else ""
    defaults: dict[str, Any] = {"unit": _unit(metric), "custom": {}}
    described = [f"{metric.doc}{shown}."]
    links = []
    if alert is not None:
        described += [f"Alert {alert.name}: {alert.expr}", f"Runbook: {alert.runbook_url}"]
        if REPOSITORY:
            links.append({"title": f"Runbook: {alert.name}", "url": alert.runbook_url, "targetBlank": True})
        if found := THRESHOLD.fullmatch(alert.expr):
            defaults |= _line(found[2] == ">", int(found[3]))
    return {
        "type": "timeseries",
        "title": name[0].upper() + name[1:],
        "description": "\n\n".join(described),
        "datasource": SOURCE,
        "links": links,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for at, (expr, legend) in enumerate(_queries(metric))
        ],
    }


def _queries(metric: Metric) -> Iterator[tuple[str, str]]:
    """What a panel asks Prometheus, and what each series is called."""
    labels = ", ".join(metric.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or "{{instance}}"
    match metric.kind:
        case MetricKind.GAUGE if _is_time(metric):
            yield f"time() - {metric.name}", legend
        case MetricKind.GAUGE:
            yield metric.name, legend
        case MetricKind.COUNTER:
            rate = f"rate({metric.name}[{RATE_WINDOW}])"
            yield f"sum by ({labels}) ({rate})" if labels else rate, legend
        case MetricKind.HISTOGRAM:
            rate = f"sum by (le, {labels}) (rate({metric.name}_bucket[{RATE_WINDOW}]))"
            for quantile in QUANTILES:
                yield f"histogram_quantile({quantile}, {rate})", f"{legend} {quantile:.0%}"


def _is_time(metric: Metric) -> bool:
    """Whether its value is a moment, and not a duration."""
    return metric.name.endswith("_timestamp_seconds")


def _unit(metric: Metric) -> str:
    return UNITS.get(metric.name.removesuffix("_total").rpartition("_")[2], "short")


def _line(is_above: bool, limit: int) -> dict[str, Any]:
    """A line at the limit: red is the side on which the alert fires."""
    colors = ("green", "red") if is_above else ("red", "green")
    steps = [{"color": colors[0], "value": None}, {"color": colors[1], "value": limit}]
    return {"thresholds": {"mode": "absolute", "steps": steps}, "custom": {"thresholdsStyle": {"mode": "line"}}}
