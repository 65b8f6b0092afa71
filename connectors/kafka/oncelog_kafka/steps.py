"""The sink by name, step by step: what the jar asks before a batch's tasks and behind them.

A step runs in a process that Spark keeps for Python on the driver's host, and the next one may run in another. All that
passes from one to the next is in the requests and in the ledger; connections are kept for as long as a process lives.
The tasks cannot be run again within a step: what needs that fails, and the query's restart does it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from pyspark.sql.types import StructType

from oncelog.errors import BatchRefusedError, NotPreparedError
from oncelog.ledger.progress import GroupProgress
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.randomness import random_id
from oncelog.spark.kit import context
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.driver import BatchDriver, batch_request
from oncelog.spark.kit.options import Use
from oncelog.spark.kit.target import Batch, BatchReport
from oncelog_kafka import batch_writes, columns, connections, outcomes, source_offsets
from oncelog_kafka import options as sink_options
from oncelog_kafka.options import OnTimedOut, SinkOptions
from oncelog_kafka.target import Job, KafkaTarget

Answer = dict[str, Any]


def take(request: Mapping[str, Any], options: Mapping[str, str], schema: StructType) -> Answer:
    """Take the step that a request asks for.

    Args:
        request: of PythonSteps.java: ``step``, and what it needs.
        options: as the user gave them.
        schema: of the rows.

    Raises:
        OncelogError: see `BatchDriver.run`.
    """
    return {"plan": _plan, "commit": _commit, "abort": _abort}[request["step"]](_Asked(request, options, schema))


class _JobAskedError(Exception):
    """The tasks are to run now, with these settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = settings


@dataclass(frozen=True)
class _TableJob:
    """The batch's tasks, which Spark runs between two steps."""

    buckets: int | None
    is_speculative: bool
    may_run: bool

    def parallelism(self) -> int:
        return self.buckets or 1

    def speculates(self) -> bool:
        return self.is_speculative

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> NoReturn:
        if not self.may_run:
            raise NotPreparedError("the batch's rows are at hand again when the query restarts")
        if buckets is not None and buckets != self.buckets:
            raise BatchRefusedError(
                "a part of a decided batch was lost, and the batch had another number of participants; start the query "
                "with that one, until the part is written again",
                participants=buckets,
                now=self.buckets,
            )
        raise _JobAskedError(settings)


class _Asked:
    """A request, and the batch that it is about."""

    def __init__(self, request: Mapping[str, Any], options: Mapping[str, str], schema: StructType) -> None:
        self.request = request
        self.is_stream = "query" in request
        self.options = sink_options.parse(options, Use.STREAM_WRITE if self.is_stream else Use.BATCH_WRITE)
        self.columns = columns.described(schema)
        columns.check(schema, self.options.topic)
        self.target = _target(options, self.options)
        held = request.get("attempt")
        self.name = random_id() if held is None else held["name"]
        if self.is_stream:
            batch = context.of_facts(request["query"])
            self.batch = self._batch(batch_request(self.options, batch, batch.run_id), batch)
        else:
            self.batch = self._batch(batch_writes.request_of(self.options, self.name), None)

    def _batch(self, asked: BatchRequest, found: BatchContext | None) -> Batch[Job]:
        progress: GroupProgress[Any] | None = None
        if found is not None and self.options.group_id:
            progress = source_offsets.of_batch(found, self.options.group_id)
        is_rewrite = self.options.on_timed_out is OnTimedOut.REWRITE
        job = _TableJob(
            self.request.get("buckets") if is_rewrite else None,
            self.request["speculates"],
            may_run=self.request["step"] == "plan",
        )
        return Batch(asked, job, progress)

    def to_run(self, settings: Mapping[str, Any], held: Mapping[str, Any]) -> Answer:
        """The answer that asks for the tasks."""
        attempt = {"rewriting": None, "name": self.name, **held}
        return {"attempt": attempt, "settings": {**settings, "columns": self.columns}}

    def done(self, report: BatchReport) -> Answer:
        """The answer that ends a batch."""
        if not self.is_stream:
            batch_writes.forget(self.target.store, self.batch.request.prefix)
        run_id = self.batch.request.run_id
        lease = self.target.take_lease(run_id)
        return {"report": asdict(report), "lease": lease}


def _plan(asked: _Asked) -> Answer:
    request, target = asked.batch.request, asked.target
    if not asked.is_stream:
        batch_writes.finish_others(target.brokers, target.store, asked.options)
    if asked.request.get("lease") is not None:
        target.keep_lease(request.run_id, asked.request["lease"])
    attempt, report, driver = target.attempt(asked.batch), BatchReport(request.batch_id), BatchDriver(target)
    try:
        if not driver.begin(attempt, report):
            return asked.done(report)
    except _JobAskedError as job:
        return asked.to_run(job.settings, {"rewriting": attempt.rewriting})
    with driver.undone_if_it_fails(attempt):
        return asked.to_run(attempt.plan(), attempt.held())


def _commit(asked: _Asked) -> Answer:
    held, written = asked.request["attempt"], asked.request["outcomes"]
    report, driver = BatchReport(asked.batch.request.batch_id), BatchDriver(asked.target)
    report.write_ms = job_ms = asked.request["job_ms"]
    attempt = asked.target.attempt(asked.batch)
    if held["rewriting"] is not None:
        rewritten = outcomes.written(written)
        number, lease = held["rewriting"]
        attempt.rewrote(number, lease, rewritten, job_ms)
        driver.begin(attempt, report)
        report.rewritten = len(rewritten.participants)
        return asked.done(report)
    attempt.resume(held["number"], held["nonce"], job_ms)
    with driver.undone_if_it_fails(attempt):
        attempt.wrote(outcomes.written(written), report)
    driver.complete(attempt, report)
    return asked.done(report)


def _abort(asked: _Asked) -> Answer:
    held = asked.request["attempt"]
    if held["rewriting"] is None:  # else it is decided
        attempt = asked.target.attempt(asked.batch)
        attempt.resume(held["number"], held["nonce"], 0)
        attempt.abort()
    return {}


_targets: dict[tuple[int, str], KafkaTarget] = {}


def _target(given: Mapping[str, str], options: SinkOptions) -> KafkaTarget:
    """The target of these options, one per process: opening one asks the brokers."""
    key = (os.getpid(), repr(sorted(given.items())))
    if key not in _targets:
        store = connections.open_store(options.znodes)
        _targets[key] = KafkaTarget(store, connections.open_brokers(options.admin), options)
    return _targets[key]
