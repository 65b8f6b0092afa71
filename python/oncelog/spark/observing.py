"""Metrics of the queries of a session: what Spark reports of them, and what their sinks do with each batch.

Spark's own wrapper of a Python listener copies each report value by value, in some hundred calls into the JVM. This one
asks for its JSON, in one call.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Annotated, Any, Final, Self

from pyspark.sql import SparkSession

from oncelog.batches.attempt import BatchReport
from oncelog.errors import BatchRefusedError, GroupOwnedError, RunSupersededError, UsageError
from oncelog.habits import Guided
from oncelog.metrics import catalogue as c
from oncelog.metrics.exposition import CollectorRegistry, Instruments, parse_address, served
from oncelog.metrics.stores import measured
from oncelog.signatures import checked
from oncelog.spark.kit import watching
from oncelog.spark.kit.context import known_internals
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.versions import require_classic

DEFAULT_ADDRESS: Final = "127.0.0.1:9465"

QUERIES_MOST: Final = 200
"""Queries with series of their own. A driver that starts new ones for ever has the rest of them in one."""

OTHERS: Final = "(others)"

_REFUSALS = (BatchRefusedError, RunSupersededError, GroupOwnedError)
_PHASES = ("write", "prepare", "decide", "commit")


class Observation(Guided):
    """What `observe` began. Close it, or use it as a context manager; otherwise it lasts as long as the process.

    Attributes:
        url: of the page; None if the metrics are in a registry of the caller's.
    """

    @checked
    def __init__(
        self, url: str | None, closing: Annotated[ExitStack, "oncelog.spark.observe(...) makes an observation"]
    ) -> None:
        self.url = url
        self._closing = closing

    def __repr__(self) -> str:
        return f"Observation(url={self.url!r})"

    def close(self) -> None:
        """Stop listening and serving; safe to call twice."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@checked
def observe(
    spark: SparkSession, *, listen: str | None = None, registry: CollectorRegistry | None = None
) -> Observation:
    """Serve metrics of a session's queries, their sources, sinks and znode stores, for Prometheus.

    Args:
        spark: its streaming queries are observed, those that run already from their next report on.
        listen: where the driver serves the page, as HOST:PORT; by default 127.0.0.1:9465, which only this machine
            reaches. Port 0 is any free port: see `Observation.url`.
        registry: a registry of prometheus_client that gets the metrics instead, if the driver serves one already.

    Raises:
        UsageError: this is a Spark Connect session, whose queries run elsewhere; or the address cannot be used; or
            both `listen` and `registry` are given.

    Example:
        observation = oncelog.spark.observe(spark)
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    require_classic()
    if registry is not None and listen is not None:
        raise UsageError("a registry is served by whoever made it; give listen or registry, not both", listen=listen)
    instruments, names, url = Instruments((*c.QUERY, *c.STORE)), _Names(), None
    with ExitStack() as opening:
        collected = registry or CollectorRegistry(auto_describe=False)
        collected.register(instruments)
        opening.callback(collected.unregister, instruments)
        if registry is None:
            url = opening.enter_context(served(collected, parse_address(listen or DEFAULT_ADDRESS)))
        opening.enter_context(measured(instruments))
        watcher = _SinkWatcher(instruments, names)
        watching.WATCHERS.append(watcher)
        opening.callback(watching.WATCHERS.remove, watcher)
        _hear(spark, _Ears(instruments, names), opening)
        return Observation(url, opening.pop_all())


def _hear(spark: SparkSession, ears: _Ears, closing: ExitStack) -> None:
    """Let Spark tell `ears` of its queries until `closing` is closed."""
    from pyspark.java_gateway import ensure_callback_server_started

    with known_internals():
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        listener = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(ears)
        manager: Any = spark.streams._jsqm
        manager.addListener(listener)
    closing.callback(manager.removeListener, listener)


class _Names:
    """What queries are called: by their name, else by their id. Only so many get a label of their own."""

    def __init__(self) -> None:
        self._of_id: dict[str, str] = {}

    def __getitem__(self, query_id: str) -> str:
        return self._of_id.get(query_id) or self.learn(query_id, None)

    def learn(self, query_id: str, name: str | None) -> str:
        """Note the name of a query that starts, or that is met for the first time."""
        if query_id not in self._of_id and len(self._of_id) >= QUERIES_MOST:
            return OTHERS
        return self._of_id.setdefault(query_id, name or query_id)


class _Ears:
    """Hears of queries, as Spark's interface for Python has it. What it raises would only fill the driver's log."""

    def __init__(self, instruments: Instruments, names: _Names) -> None:
        self._to = instruments
        self._names = names

    def onQueryStarted(self, event: Any) -> None:
        name = self._names.learn(str(event.id().toString()), event.name())
        self._to.put(c.QUERY_ACTIVE, 1, name)
        self._to.add(c.QUERY_FAILURES, 0, name)  # so that the first failure is an increase

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress().json())
        name = self._names.learn(progress["id"], progress.get("name"))
        self._to.put(c.QUERY_ACTIVE, 1, name)
        self._to.put(c.QUERY_PROGRESS, time.time(), name)
        self._to.put(c.QUERY_BATCH, progress["batchId"], name)
        self._to.add(c.QUERY_ROWS, max(progress.get("numInputRows", 0), 0), name)
        for number, source in enumerate(progress.get("sources", ())):
            self._hear_source(name, str(number), source.get("metrics") or {})

    def _hear_source(self, name: str, number: str, metrics: dict[str, str]) -> None:
        told = (
            (c.SOURCE_BEHIND, "maxOffsetsBehindLatest"),
            (c.SOURCE_BEHIND_MEAN, "avgOffsetsBehindLatest"),
            (c.SOURCE_HELD, "offsetsHeldByOpenTransactions"),
        )
        for metric, theirs in told:
            if theirs in metrics:
                self._to.put(metric, float(metrics[theirs]), name, number)

    def onQueryIdle(self, event: Any) -> None:
        self._to.put(c.QUERY_PROGRESS, time.time(), self._names[str(event.id().toString())])

    def onQueryTerminated(self, event: Any) -> None:
        name = self._names[str(event.id().toString())]
        self._to.put(c.QUERY_ACTIVE, 0, name)
        self._to.add(c.QUERY_FAILURES, bool(event.exception().isDefined()), name)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class _SinkWatcher:
    """Counts what sinks do; see `watching.Watcher`."""

    def __init__(self, instruments: Instruments, names: _Names) -> None:
        self._to = instruments
        self._names = names

    def batch_ended(self, query_id: str, sink: ForeachBatchSink[Any, Any], problem: BaseException | None) -> None:
        query = self._names[query_id]
        if problem is not None:
            labels = _labels(query, query_id, sink)
            result = "refused" if isinstance(problem, _REFUSALS) else "failed"
            self._to.add(c.SINK_BATCHES, 1, *labels, result)
            self._to.add(c.SINK_ERRORS, 1, *labels, type(problem).__name__)
            return
        report = sink.last_report
        if report is not None and not report.is_replay:
            labels = _labels(query, query_id, sink)
            for phase in _PHASES:
                self._to.observe(c.SINK_PHASE, getattr(report, f"{phase}_ms") / 1000, *labels, phase)
        for part in sink.parts:
            if part.last_report is not None:
                self._count(_labels(query, query_id, part), part.last_report)

    def _count(self, labels: tuple[str, ...], report: BatchReport) -> None:
        self._to.add(c.SINK_BATCHES, 1, *labels, "replayed" if report.is_replay else "written")
        for metric, amount in (
            (c.SINK_ROWS, report.rows),
            (c.SINK_BYTES, report.size_bytes or 0),
            (c.SINK_PARTICIPANTS, report.participants),
            (c.SINK_REWRITTEN, report.rewritten),
            (c.SINK_ABORTED, report.aborted),
        ):
            self._to.add(metric, amount, *labels)


def _labels(query: str, query_id: str, sink: ForeachBatchSink[Any, Any]) -> tuple[str, ...]:
    prefix = query if query == OTHERS else sink.options.prefix(query_id)
    return query, sink.target_name, prefix
