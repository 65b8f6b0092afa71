"""What a place to write to must provide, so that micro-batches are written there exactly once.

An attempt at a batch goes through these phases in order. If it is killed after a phase, a restart does the following:

    plan     the ledger has an open round                → abort it and start over
    write    the tasks' rows are durable, not visible    → the same
    prepare  all of it can be committed                  → the same
    decide   the decision is in the ledger, in one write → commit, without writing rows
    commit   everybody sees the batch                    → skip the batch
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.transaction import Step
from oncelog.ports import Clock, ZnodeStore

J = TypeVar("J")


@dataclass(frozen=True)
class Batch(Generic[J]):
    """A micro-batch to write.

    Attributes:
        request: which batch of which query.
        job: what writes the rows, in the form that the target takes.
        progress: source offsets to commit to a consumer group with the batch; None if the sink has no group.
        is_repeatable: whether the job may run a second time if others (a time-out, an operator) aborted the first
            attempt before its decision.
        shared: what the attempts of these sinks share, each kind of target under a key of its own; None if the sink
            writes alone.
    """

    request: BatchRequest
    job: J
    progress: GroupProgress[Any] | None = None
    is_repeatable: bool = False
    shared: dict[Any, Any] | None = None


@dataclass(slots=True)
class BatchReport:
    """What a sink did with a batch.

    Attributes:
        batch_id: of the micro-batch.
        is_replay: the batch was decided before; no rows were written, at most its commit was completed.
        rows: number of rows that were written.
        size_bytes: their size, compressed; None if none were written, or if the target does not know it.
        participants: number of transactions or files that the decision names.
        rewritten: participants that were lost after the decision and written again.
        aborted: transactions of retries, speculative copies and older runs that were aborted.
        write_ms, prepare_ms, decide_ms, commit_ms: how long each phase took.
    """

    batch_id: int
    is_replay: bool = False
    rows: int = 0
    size_bytes: int | None = None
    participants: int = 0
    rewritten: int = 0
    aborted: int = 0
    write_ms: int = 0
    prepare_ms: int = 0
    decide_ms: int = 0
    commit_ms: int = 0


class Attempt(Protocol):
    """One attempt at a batch. The driver goes through the phases in order, and calls `abort` if one fails.

    `plan` and `decide` return a step for the driver to run, in one transaction with those of other sinks. They are
    called again if the transaction fails and a sink can recover. The other phases are called once. Each phase adds its
    counts to the report.
    """

    @property
    def is_open(self) -> bool:
        """Whether the batch is planned and was not decided before; otherwise only `commit` and `finish` follow."""

    def plan(self) -> Step[Any] | None:
        """The step that plans the batch in the ledger; None if the one that decides does that, too.

        The step raises a RunSupersededError or a BatchRefusedError as batches/rules.py says.
        """

    def kept_alive(self) -> AbstractContextManager[None]:
        """Held during `write` and `prepare`; shows that the driver is alive, if others could time out its round."""

    def write(self, report: BatchReport) -> None:
        """Run the job. What it writes is durable, and not visible."""

    def prepare(self, report: BatchReport) -> None:
        """Make sure that the winning tasks' rows can be committed, and that nothing else ever can."""

    def decide(self, report: BatchReport) -> Step[Any]:
        """The step that records the decision to commit, in one write to the ledger.

        The step raises a RunSupersededError or a RoundAbortedError if another driver took over; nothing was decided.

        Raises:
            NotPreparedError: something cannot be committed; nothing was decided.
        """

    def commit(self, report: BatchReport) -> None:
        """Make the decided batch visible. Anybody may do this, any number of times."""

    def abort(self) -> None:
        """Undo the attempt; do nothing if it was decided."""

    def finish(self) -> None:
        """The batch is done: remove what earlier batches no longer need."""

    def close(self) -> None:
        """Release the connections of the attempt. Called last, however the attempt ended."""


class Target(Protocol[J]):
    """A place that batches are written to. It lives as long as its sink, and may cache things between batches."""

    @property
    def clock(self) -> Clock:
        """`SYSTEM_CLOCK`, unless a test controls the time."""

    @property
    def store(self) -> ZnodeStore:
        """Where its ledger is."""

    def attempt(self, batch: Batch[J]) -> Attempt:
        """A new attempt at a batch; does nothing yet."""
