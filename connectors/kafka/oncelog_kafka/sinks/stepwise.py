"""A run of a Kafka sink that lives in two processes: the tasks run between its two steps.

`Held` is all that the first step passes on; the rest is in the ledger. The tasks run only once. If their rows are
needed a second time, the batch fails, and the query's restart runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.run import BatchDriver, BatchRun
from oncelog_kafka.sinks.jobs import Job, Written
from oncelog_kafka.sinks.target import KafkaAttempt, KafkaTarget


@dataclass(frozen=True, slots=True)
class Held:
    """What the second step needs from the first.

    Attributes:
        number, nonce: of the round.
        rewriting: the lease under which lost participants of a decided round are written again; None for a new round.
    """

    number: int
    nonce: str
    rewriting: int | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of the first step if the tasks have to run.

    Attributes:
        settings: what the tasks need to know.
        buckets: number of content-hash participants; None if Spark's partitions are the participants.
        held: for the second step.
    """

    settings: Mapping[str, Any]
    buckets: int | None
    held: Held


def plan(target: KafkaTarget, batch: Batch[Job]) -> Planned | BatchReport:
    """The first step, before the batch's tasks. Returns a report if the batch was decided before and is finished now.

    Raises:
        OncelogError: see `BatchDriver.run`.
    """
    run, attempt = _begun(target, batch)
    if run.plan():
        with run.undone_if_it_fails():
            return Planned(attempt.prepare_tasks(), attempt.buckets(), Held(*attempt.held()))
    with after_decision(batch.request.batch_id):
        lost = attempt.end()
        if lost is None:
            attempt.finish()
            return run.report
    return Planned(lost.settings, lost.buckets, Held(lost.decided.number, "", lost.lease))


def complete(target: KafkaTarget, batch: Batch[Job], held: Held, written: Written, job_ms: int) -> BatchReport:
    """The second step, after the batch's tasks.

    Args:
        target, batch: the same as in `plan`.
        held: from `plan`.
        written: what the tasks prepared.
        job_ms: how long ago their job began.

    Raises:
        OncelogError: see `BatchDriver.run`. A lost participant is written again after a restart of the query.
    """
    run, attempt = _begun(target, batch)
    run.report.write_ms = job_ms
    if held.rewriting is not None:
        attempt.rewrote(held.number, held.rewriting, written, job_ms)
        run.plan()
        run.complete_replay()
        run.report.rewritten = len(written.participants)
        return run.report
    attempt.resume(held.number, held.nonce, job_ms)
    with run.undone_if_it_fails():
        attempt.wrote(written, run.report)
    run.complete()
    return run.report


def abort(target: KafkaTarget, batch: Batch[Job], held: Held) -> None:
    """Undo a batch whose tasks failed; do nothing if it was decided."""
    if held.rewriting is None:
        attempt = target.attempt(batch)
        attempt.resume(held.number, held.nonce, 0)
        attempt.abort()


def _begun(target: KafkaTarget, batch: Batch[Job]) -> tuple[BatchRun, KafkaAttempt]:
    run = BatchDriver(target).attempt(batch)
    return run, cast(KafkaAttempt, run.parts[0].attempt)
