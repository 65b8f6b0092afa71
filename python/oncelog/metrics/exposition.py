"""Serves metrics over HTTP in Prometheus' format. The home of prometheus_client."""

from __future__ import annotations

import gzip
import logging
import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from oncelog.extras import extras

with extras("metrics", part="oncelog.metrics"):
    from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.exposition import gzip_accepted
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector
    from prometheus_client.utils import floatToGoString

from oncelog.errors import UsageError
from oncelog.metrics import catalogue as c
from oncelog.metrics.addresses import Address, parse_address
from oncelog.metrics.catalogue import Metric, MetricKind
from oncelog.metrics.reading import NO_LABELS, Labels, Reading
from oncelog.version import __version__

__all__ = ["Address", "CollectorRegistry", "Instruments", "ReadingCollector", "parse_address", "parse_page", "served"]

_log = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""What is watched is read at most once in this time, whoever scrapes."""

PATIENCE_SECONDS = 8.0
"""How long a scrape waits for a read. Prometheus itself waits for ten seconds by default."""


class ReadingCollector(Collector):
    """Reads when it is scraped, and shares a read between the scrapes of a second.

    If a read fails or takes too long, the page says ``oncelog_up 0`` and has no other value of it: an old value would
    hide that nobody knows the present one.

    Args:
        read: reads what is watched; never called twice at a time.
    """

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read_once = read
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="oncelog-exporter")
        self._lock = threading.Lock()
        self._current: Future[Reading] | None = None
        self._began = 0.0
        self._reads = 0
        self._errors: dict[str, int] = {}
        self._seconds: float | None = None
        self._overdue: Future[Reading] | None = None
        self._is_failing = False

    def collect(self) -> Iterable[Family]:
        """The metrics of one page."""
        reading = self._reading()
        yield _gauges(c.UP, {NO_LABELS: reading is not None})
        yield _gauges(c.BUILD_INFO, {(__version__,): 1})
        with self._lock:
            reads, errors, seconds = self._reads, dict(self._errors), self._seconds
        yield _counters(c.READS, {NO_LABELS: reads})
        yield _counters(c.READ_ERRORS, {(name,): count for name, count in sorted(errors.items())})
        if reading is not None and seconds is not None:
            yield _gauges(c.READ_SECONDS, {NO_LABELS: seconds})
        for metric, values in reading.values.items() if reading is not None else ():
            yield _gauges(metric, values)

    def close(self) -> None:
        """Start no more reads."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _reading(self) -> Reading | None:
        with self._lock:
            now, current = time.monotonic(), self._current
            if current is None or (current.done() and now - self._began >= FRESH_SECONDS):
                self._began, self._reads = now, self._reads + 1
                current = self._current = self._worker.submit(self._read)
        try:
            return current.result(PATIENCE_SECONDS)
        except TimeoutError as problem:
            with self._lock:
                is_first, self._overdue = self._overdue is not current, current
            if is_first and not current.done():  # else it is the read's own error
                self._failed(problem)
        except Exception:  # noqa: BLE001 - `_read` has counted it, and the page says that there are no values
            pass
        return None

    def _read(self) -> Reading:
        began = time.monotonic()
        try:
            reading = self._read_once()
        except Exception as problem:
            self._failed(problem)
            raise
        with self._lock:
            self._seconds = time.monotonic() - began
            was_failing, self._is_failing = self._is_failing, False
        if was_failing:
            _log.info("the exporter can read again")
        return reading

    def _failed(self, problem: Exception) -> None:
        name = type(problem).__name__
        with self._lock:
            self._errors[name] = self._errors.get(name, 0) + 1
            was_failing, self._is_failing = self._is_failing, True
        if not was_failing:
            _log.warning("the exporter cannot read, and serves oncelog_up 0 until it can: %s: %s", name, problem)


def _gauges(metric: Metric, values: Mapping[Labels, float]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.doc, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _counters(metric: Metric, values: Mapping[Labels, float]) -> Family:
    family = CounterMetricFamily(metric.name, metric.doc, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds: a phase takes some milliseconds to some minutes."""


class Instruments(Collector):
    """Metrics that are counted where something happens.

    prometheus_client's own counters would serve a second series for each, with the time at which it began.

    Args:
        metrics: those of the catalogue.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._lock = threading.Lock()
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in metrics}
        self._buckets: dict[Metric, dict[Labels, list[int]]] = {
            metric: {} for metric in self._values if metric.kind is MetricKind.HISTOGRAM
        }

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Count up."""
        with self._lock:
            values = self._values[metric]
            values[labels] = values.get(labels, 0) + amount

    def put(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[metric][labels] = value

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram."""
        with self._lock:
            counts = self._buckets[metric].setdefault(labels, [0] * (len(BUCKETS) + 1))
            counts[bisect_left(BUCKETS, seconds)] += 1
        self.add(metric, seconds, *labels)

    def collect(self) -> Iterable[Family]:
        """The metrics of one page."""
        with self._lock:
            values = {metric: dict(found) for metric, found in self._values.items()}
            buckets = {
                metric: {labels: list(accumulate(counts)) for labels, counts in found.items()}
                for metric, found in self._buckets.items()
            }
        for metric, found in values.items():
            match metric.kind:
                case MetricKind.COUNTER:
                    yield _counters(metric, found)
                case MetricKind.GAUGE:
                    yield _gauges(metric, found)
                case MetricKind.HISTOGRAM:
                    yield _histograms(metric, found, buckets[metric])


def _histograms(metric: Metric, sums: Mapping[Labels, float], buckets: Mapping[Labels, list[int]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
    bounds = [*map(str, BUCKETS), "+Inf"]
    for labels, counts in buckets.items():
        family.add_metric(labels, list(zip(bounds, counts, strict=True)), sums[labels])
    return family


# Serving --------------------------------------------------------------------------------------------------------------


@contextmanager
def served(registry: CollectorRegistry, address: Address) -> Iterator[str]:
    """Serve a registry while the block runs; yields the URL of the page.

    Raises:
        UsageError: this process may not listen there, or another one does.
    """
    try:
        server, thread = start_http_server(address.port, address.host, registry)
    except OSError as problem:
        raise UsageError(
            "cannot listen at this address; choose another one, or stop who listens there",
            listen=str(address),
            problem=str(problem),
        ) from problem
    server.set_app(TextPage(registry, address))
    try:
        yield f"http://{address._replace(port=server.server_port)}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


COMPRESSION: Final = 1
"""zlib's fastest level. prometheus_client would use its best, which takes 25 times as long to save a fifth more."""

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format, which all its versions read."""


class TextPage:
    """A registry's page, as a WSGI application that caches the names of series from one scrape to the next.

    prometheus_client builds all names again for each scrape, which takes longer than reading a log. It still answers
    requests that are not a GET, and requests for other paths.

    Args:
        address: where it is served; a request that names another host than the address admits gets 403.
    """

    def __init__(self, registry: CollectorRegistry, address: Address) -> None:
        self._registry = registry
        self._address = address
        self._otherwise = make_wsgi_app(registry)
        self._names: dict[tuple[str, ...], str] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        if not self._address.admits(environ.get("HTTP_HOST", "")):
            start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"oncelog: this address is for this machine only; ask for it as 127.0.0.1 or localhost\n"]
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("GET", "/metrics"):
            found: Iterable[bytes] = self._otherwise(environ, start_response)
            return found
        page, headers = self.text().encode(), [("Content-Type", TEXT)]
        if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            page = gzip.compress(page, COMPRESSION)
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", headers)
        return [page]

    def text(self) -> str:
        """The page now."""
        lines: list[str] = []
        names: dict[tuple[str, ...], str] = {}
        for family in self._registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            lines.append(f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n")
            for sample in family.samples:
                key = (sample.name, *sample.labels.values())
                names[key] = series = self._names.get(key) or _series(sample.name, sample.labels)
                lines.append(f"{series} {_number(sample.value)}\n")
        self._names = names
        return "".join(lines)


_number: Final = lru_cache(1 << 14)(floatToGoString)


def _series(name: str, labels: Mapping[str, str]) -> str:
    if not labels:
        return name
    return name + "{" + ",".join([f'{label}="{_escaped(value)}"' for label, value in labels.items()]) + "}"


@lru_cache(1 << 14)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


# Reading --------------------------------------------------------------------------------------------------------------


def parse_page(text: str, metrics: Iterable[Metric]) -> Reading:
    """The values of these metrics on a page that somebody serves. Histograms and what is no number are left out.

    Raises:
        ValueError: it is no such page.
    """
    wanted = {metric.name: metric for metric in metrics if metric.kind is not MetricKind.HISTOGRAM}
    reading = Reading(wanted.values())
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            metric = wanted.get(sample.name)
            if metric is None or sample.labels.keys() != set(metric.labels) or not math.isfinite(sample.value):
                continue
            reading.put(metric, sample.value, *(sample.labels[label] for label in metric.labels))
    return reading
