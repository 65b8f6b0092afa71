"""What the pages themselves say of the alerts, where there is no Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from oncelog.metrics.alerts import Alert

WINDOW_S = 5.0
"""In which a counter or a lag has grown, as in the alerts without their patience."""

LIMIT = re.compile(r'(\w+)(?:\{(\w+)="(\w+)"\})? (==|<|>) (\d+)')
SERIES = re.compile(r'(oncelog_\w+)(?:\{(\w+)="(\w+)"\})?')

Sample = tuple[str, tuple[tuple[str, str], ...]]
Samples = dict[Sample, float]


class Pages:
    """Reads pages as Prometheus does, and compares numbers.

    It knows two kinds of alerts: a metric is beyond a number, and, for whatever is more than that, a metric grows.

    Args:
        targets: addresses of the pages.
        alerts: what may fire.
    """

    def __init__(self, targets: Sequence[str], alerts: Iterable[Alert]) -> None:
        self._targets = targets
        self._alerts = list(alerts)
        self._seen: list[tuple[float, Samples]] = []

    def is_scraping(self) -> bool:
        """Whether it has read each page."""
        return bool(self._read())

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now: only their names."""
        now_s, samples = time.monotonic(), self._read()
        before = [one for one in self._seen if one[0] < now_s - WINDOW_S]
        self._seen = [*before[-1:], *self._seen[len(before) :], (now_s, samples)]
        return [{"alertname": alert.name} for alert in self._alerts if self._fires(alert.expr)]

    def _fires(self, expr: str) -> bool:
        now = self._seen[-1][1]
        limits = [LIMIT.fullmatch(part) for part in expr.split(" or ")]
        if all(limits):
            return any(
                _is_beyond(value, found[4], int(found[5])) for found in limits if found for value in _of(now, found)
            )
        grown = [sample for sample, value in now.items() if self._has_grown(sample, value)]
        return any(_is_named(sample, found) for found in SERIES.finditer(expr) for sample in grown)

    def _has_grown(self, sample: Sample, value: float) -> bool:
        """Whether a counter has, also from nothing; or a lag that was never 0 meanwhile."""
        is_lag = not sample[0].endswith("_total")
        if is_lag and not all(samples.get(sample, 0) > 0 for _, samples in self._seen):
            return False
        return value > self._seen[0][1].get(sample, 0)

    def _read(self) -> Samples:
        found: Samples = {}
        for target in self._targets:
            with urlopen(f"http://{target}/metrics", timeout=30) as answer:
                for family in text_string_to_metric_families(answer.read().decode()):
                    for sample in family.samples:
                        labels = {**sample.labels, "instance": target}
                        found[sample.name, tuple(sorted(labels.items()))] = sample.value
        return found


def _of(samples: Samples, series: re.Match[str]) -> Iterator[float]:
    return (value for sample, value in samples.items() if _is_named(sample, series))


def _is_named(sample: Sample, series: re.Match[str]) -> bool:
    name, labels = sample
    return name == series[1] and (series[2] is None or (series[2], series[3]) in labels)


def _is_beyond(value: float, sign: str, limit: int) -> bool:
    return value > limit if sign == ">" else value < limit if sign == "<" else value == limit
