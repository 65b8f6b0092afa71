"""The port of a sink: what a place to write to must provide, so that a micro-batch is written there exactly once.

An attempt at a batch passes its phases in this order, and may be killed in any of them:

    begin    the ledger holds an open round            → a restart aborts it and begins anew
    write    tasks wrote what nobody sees              → the same
    prepare  all of it can be committed                → the same
    decide   the ledger says so, in one write          → a restart commits, and writes nothing
    commit   everybody sees it                         → a restart skips the batch
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from oncelog.ledger.progress import GroupProgress
from oncelog.ports import Clock
from oncelog.protocol.batch_ledger import BatchRequest

J = TypeVar("J")


@dataclass(frozen=True)
class Batch(Generic[J]):
    """A micro-batch that is to be written.

    Attributes:
        request: which one, of which query.
        job: what writes its rows: as the target takes it.
        progress: source offsets that become a group's with the batch, if the sink keeps one.
        is_repeatable: whether the job may be run a second time, where others aborted the first attempt before its
            decision (a time-out, an operator), as a restart of the query would do.
    """

    request: BatchRequest
    job: J
    progress: GroupProgress[Any] | None = None
    is_repeatable: bool = False


@dataclass(slots=True)
class BatchReport:
    """What a sink did with a batch.

    Attributes:
        batch_id: of the micro-batch.
        is_replay: it was decided before: nothing was written, at most its commits were sent again.
        rows, size_bytes: written; bytes are compressed, and 0 where the target does not tell.
        participants: transactions or files that the decision names.
        rewritten: participants that were lost behind the decision and written again.
        aborted: transactions of losers (retries, speculative copies, older runs) that were ended.
        write_ms, prepare_ms, decide_ms, commit_ms: how long each phase took.
    """

    batch_id: int
    is_replay: bool = False
    rows: int = 0
    size_bytes: int = 0
    participants: int = 0
    rewritten: int = 0
    aborted: int = 0
    write_ms: int = 0
    prepare_ms: int = 0
    decide_ms: int = 0
    commit_ms: int = 0


class Attempt(Protocol):
    """One attempt at a batch. The driver calls each phase once, and `abort` where one of them fails.

    What a phase counts it notes in the report.
    """

    def begin(self) -> bool:
        """Plan the batch in the ledger; False where it was decided before: then only `commit` and `finish` follow.

        Raises:
            RunSupersededError, BatchRefusedError: see protocol/batch_ledger.py.
        """

    def kept_alive(self) -> AbstractContextManager[None]:
        """Held over `write` and `prepare`: tells others that the driver lives, where they may time it out."""

    def write(self, report: BatchReport) -> None:
        """Run the job: what it writes is durable, and nobody sees it."""

    def prepare(self, report: BatchReport) -> None:
        """Make ready what won, and see that nothing else can ever be committed."""

    def decide(self, report: BatchReport) -> None:
        """Decide, in one write to the ledger, if all of it can be committed.

        Raises:
            NotPreparedError: it cannot; nothing was decided.
            RunSupersededError, RoundAbortedError: somebody else took over; nothing was decided.
        """

    def commit(self, report: BatchReport) -> None:
        """Carry the decision out, if anything is left to do. Anybody may do it, any number of times."""

    def abort(self) -> None:
        """Undo what is not decided; nothing happens where it was decided."""

    def finish(self) -> None:
        """Remove what the batches before left behind: the batch is done."""


class Target(Protocol[J]):
    """A place that batches are written to. It lives as long as its sink, and may remember what spares work."""

    @property
    def clock(self) -> Clock:
        """Of this process; `SYSTEM_CLOCK`, unless a test drives it."""

    def attempt(self, batch: Batch[J]) -> Attempt:
        """A new attempt at a batch; nothing is done yet."""
