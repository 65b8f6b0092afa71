"""Pages of metrics, read as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.request import urlopen

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from oncelog.metrics.catalogue import Metric, MetricKind
from oncelog.metrics.exposition import CollectorRegistry

Page = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by the name of the sample and its labels."""


def parse(text: str) -> Page:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def page_of(registry: CollectorRegistry) -> Page:
    return parse(generate_latest(registry).decode())


def page_at(url: str) -> Page:
    with urlopen(url, timeout=30) as answer:
        assert answer.status == 200
        return parse(answer.read().decode())


def value(page: Page, metric: Metric, **labels: object) -> float | None:
    """The value of one sample; None if the page does not have it."""
    return page.get((metric.name, tuple(sorted((name, str(one)) for name, one in labels.items()))))


def check_catalogued(page: Page, metrics: Iterable[Metric]) -> None:
    """Each metric has a sample with its labels, and there are no other samples."""
    found = {(name, tuple(label for label, _ in labels)) for name, labels in page}
    assert found == {sample for metric in metrics for sample in _samples(metric)}


def _samples(metric: Metric) -> list[tuple[str, tuple[str, ...]]]:
    labels = tuple(sorted(metric.labels))
    if metric.kind is not MetricKind.HISTOGRAM:
        return [(metric.name, labels)]
    buckets = tuple(sorted((*labels, "le")))
    return [(f"{metric.name}_bucket", buckets), (f"{metric.name}_sum", labels), (f"{metric.name}_count", labels)]
