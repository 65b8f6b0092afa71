"""Writes one batch in two steps, for a driver that cannot run the batch's tasks itself: they run between the steps.

Another process may take the second step. `Held` is all that is passed on; the rest is in the ledger. The tasks run only
once. If they were needed a second time, the batch fails, and the query's restart runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.run import BatchDriver
from oncelog.errors import NotPreparedError
from oncelog_kafka.jobs import Job, Written
from oncelog_kafka.target import KafkaTarget


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
    driver = BatchDriver(target)
    attempt, report = target.attempt(replace(batch, job=_Unrun(batch.job))), BatchReport(batch.request.batch_id)
    try:
        if not driver.begin(attempt, report):
            return report
    except _WantedError as wanted:
        number, lease = attempt.rewriting or (0, 0)
        return Planned(wanted.settings, wanted.buckets, Held(number, "", lease))
    with driver.undone_if_it_fails(attempt):
        return Planned(attempt.plan(), attempt.buckets(), Held(*attempt.held()))


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
    driver = BatchDriver(target)
    attempt = target.attempt(replace(batch, job=_Over(batch.job)))
    report = BatchReport(batch.request.batch_id, write_ms=job_ms)
    if held.rewriting is not None:
        attempt.rewrote(held.number, held.rewriting, written, job_ms)
        driver.begin(attempt, report)
        report.rewritten = len(written.participants)
        return report
    attempt.resume(held.number, held.nonce, job_ms)
    with driver.undone_if_it_fails(attempt):
        attempt.wrote(written, report)
    driver.complete(attempt, report)
    return report


def abort(target: KafkaTarget, batch: Batch[Job], held: Held) -> None:
    """Undo a batch whose tasks failed; do nothing if it was decided."""
    if held.rewriting is None:
        attempt = target.attempt(batch)
        attempt.resume(held.number, held.nonce, 0)
        attempt.abort()


class _WantedError(BaseException):
    """The tasks must run, to write lost participants again. No failure, so nothing on its way may report it as one."""

    def __init__(self, settings: Mapping[str, Any], buckets: int | None) -> None:
        super().__init__()
        self.settings = settings
        self.buckets = buckets


class _Between:
    """A job that runs between the steps."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def parallelism(self) -> int:
        return self._job.parallelism()

    def speculates(self) -> bool:
        return self._job.speculates()


class _Unrun(_Between):
    def run(self, settings: Mapping[str, Any], buckets: int | None) -> NoReturn:
        raise _WantedError(settings, buckets)


class _Over(_Between):
    def run(self, settings: Mapping[str, Any], buckets: int | None) -> NoReturn:
        raise NotPreparedError("the batch's rows are needed again, and are only available after a restart of the query")
