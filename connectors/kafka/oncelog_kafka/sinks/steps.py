"""The driver side of ``format("oncelog-kafka")``: the steps that the jar asks for before and after a batch's tasks.

A step runs in a Python process that Spark keeps on the driver's host; the next step may run in another one. So state is
passed only in the requests and in the ledger. Each process keeps its connections.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from pyspark.sql.types import StructType

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.errors import BatchRefusedError, NotPreparedError, OncelogError
from oncelog.randomness import random_id
from oncelog.spark.kit import context
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.options import Use
from oncelog.spark.kit.requests import batch_request
from oncelog.spark.kit.warning import warn_without_prefix
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka import connections
from oncelog_kafka.options import sink_options
from oncelog_kafka.options.sink_options import SinkOptions
from oncelog_kafka.protocol.participants import Handover, ProducerIdAndEpoch
from oncelog_kafka.sinks import batch_writes, columns, outcomes, source_offsets, stepwise
from oncelog_kafka.sinks.jobs import Job
from oncelog_kafka.sinks.stepwise import Held, Planned
from oncelog_kafka.sinks.target import KafkaTarget, Lease
from oncelog_kafka.whole_batches import whole_reads

Answer = dict[str, Any]


def take(request: Mapping[str, Any], options: Mapping[str, str], schema: StructType) -> Answer:
    """Take the step that a request asks for.

    Args:
        request: from PythonSteps.java: ``step``, and the fields that the step needs.
        options: as the user gave them.
        schema: of the rows.

    Raises:
        OncelogError: see `BatchDriver.run`.
    """
    if request["step"] == "warm":
        _target(options, sink_options.parse(options, Use.STREAM_WRITE))
        return {}
    if request["step"] == "whole":
        return whole_reads.answer(request, options)
    failure = outcomes.failure(request["outcomes"]) if request["step"] == "commit" else None
    if failure is not None:
        with suppress(OncelogError):  # the next start of the query aborts it, or a time-out
            _abort(_Asked(request, options, schema))
        raise failure
    return {"plan": _plan, "commit": _complete, "abort": _abort}[request["step"]](_Asked(request, options, schema))


@dataclass(frozen=True)
class _TableJob:
    """The batch's tasks, which Spark runs between two steps."""

    buckets: int | None
    is_speculative: bool

    def parallelism(self) -> int:
        return self.buckets or 1

    def speculates(self) -> bool:
        return self.is_speculative

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> NoReturn:
        raise NotPreparedError("the batch's rows are needed again, and are only available after a restart of the query")


class _Asked:
    """A request and its batch."""

    def __init__(self, request: Mapping[str, Any], options: Mapping[str, str], schema: StructType) -> None:
        self._came_ms = SYSTEM_CLOCK.monotonic_ms()
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
            self.batch = self._batch(batch_request(self.options, batch, batch.run_id, self.name), batch)
        else:
            self.batch = self._batch(batch_writes.request_of(self.options, self.name), None)

    def _batch(self, asked: BatchRequest, found: BatchContext | None) -> Batch[Job]:
        progress: GroupProgress[Any] | None = None
        if found is not None and self.options.group_id:
            progress = source_offsets.of_batch(found, self.options.group_id, self.target.cluster_id)
        job = _TableJob(self.request.get("buckets"), self.request["speculates"])
        return Batch(asked, job, progress)

    def held(self) -> Held:
        return Held(**self.request["attempt"]["held"])

    def job_ms(self) -> int:
        """How long ago the job of the tasks began. The target may have been opened since the request came."""
        since_ms: int = self.request["job_ms"]
        return since_ms + SYSTEM_CLOCK.monotonic_ms() - self._came_ms

    def to_run(self, planned: Planned) -> Answer:
        """The answer that asks the jar to run the tasks."""
        spread = self.request.get("buckets")
        if planned.buckets != spread:
            raise BatchRefusedError(
                "a part of a decided batch was lost, and the batch had another number of participants; start the query "
                "with the option participants set to that number, until the part is written again",
                participants=planned.buckets,
                now=spread,
            )
        attempt = {"name": self.name, "held": asdict(planned.held)}
        return {"attempt": attempt, "settings": {**planned.settings, "columns": self.columns}}

    def done(self, report: BatchReport) -> Answer:
        """The answer that ends a batch."""
        if not self.is_stream:
            batch_writes.forget(self.target.store, self.batch.request.prefix)
        known = {name: value for name, value in asdict(report).items() if value is not None}
        lease = self.target.take_lease(self.batch.request.run_id)
        return {"report": known, "lease": None if lease is None else asdict(lease)}


def _plan(asked: _Asked) -> Answer:
    target = asked.target
    if asked.is_stream and asked.batch.request.batch_id == 0:  # each step runs in a process of its own
        warn_without_prefix(asked.options, asked.batch.request.query_id)
    if not asked.is_stream:
        batch_writes.finish_others(target.brokers, target.store, asked.options)
    if asked.request.get("lease") is not None:
        target.keep_lease(asked.batch.request.run_id, _lease(asked.request["lease"]))
    with _forgotten_if_it_fails(asked):
        planned = stepwise.plan(target, asked.batch)
    return asked.to_run(planned) if isinstance(planned, Planned) else asked.done(planned)


def _complete(asked: _Asked) -> Answer:
    written = outcomes.written(asked.request["outcomes"])
    with _forgotten_if_it_fails(asked):
        report = stepwise.complete(asked.target, asked.batch, asked.held(), written, asked.job_ms())
    return asked.done(report)


def _abort(asked: _Asked) -> Answer:
    stepwise.abort(asked.target, asked.batch, asked.held())
    if not asked.is_stream:
        batch_writes.forget_aborted(asked.target.store, asked.batch.request.prefix)
    return {}


@contextmanager
def _forgotten_if_it_fails(asked: _Asked) -> Iterator[None]:
    """Delete the ledger of a batch write that fails before its decision; it is never replayed."""
    try:
        yield
    except OncelogError:
        if not asked.is_stream:
            with suppress(OncelogError):
                batch_writes.forget_aborted(asked.target.store, asked.batch.request.prefix)
        raise


def _lease(found: Mapping[str, Any]) -> Lease:
    handovers = {
        int(partition): Handover(*(ProducerIdAndEpoch(*producer) for producer in producers))
        for partition, producers in found["handovers"].items()
    }
    return Lease(found["number"], handovers)


_targets: dict[tuple[int, str], KafkaTarget] = {}


def _target(given: Mapping[str, str], options: SinkOptions) -> KafkaTarget:
    """The target for these options, kept per process, because opening one sends requests to the brokers."""
    key = (os.getpid(), repr(sorted(given.items())))
    if key not in _targets or not connections.is_usable(_targets[key].store):
        store = connections.open_store(options)
        _targets[key] = KafkaTarget(store, connections.open_brokers(options.admin), options)
    return _targets[key]
