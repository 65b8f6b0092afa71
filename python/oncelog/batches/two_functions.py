"""A target of two functions: one writes a batch together with a token, the other says whether a token was written.

Nothing is staged: the rows are written after the decision, from the batch that Spark passes. If the driver dies before
that, Spark replays the batch, because its checkpoint does not have it yet, and so brings the rows again. What makes
this exact is the contract of the functions (`oncelog.testing.once_contract` tests it):

- `write` makes all rows and the token visible at one moment, or nothing.
- A token that was written is never written again, whoever tries, and however many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt, CommittableRound, CommitterTarget, committable_ledgers
from oncelog.batches.committer import Committable, Committer
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import BatchRequest, QueryLedger
from oncelog.batches.transaction import Step
from oncelog.errors import BatchRefusedError, UsageError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.types import Outcome

ONCE_LEDGERS: LedgerKind[CommittableRound] = committable_ledgers("/once")

Write = Callable[[Any, str], object]
WasWritten = Callable[[str], bool]


class OnceTarget(CommitterTarget[Any]):
    """A store that two functions stand for; see `Target`. A job is what `write` gets.

    Args:
        store: where the ledgers are kept.
        write: writes the job under the token.
        was_written: whether the token was written.
    """

    def __init__(self, store: ZnodeStore, write: Write, was_written: WasWritten) -> None:
        super().__init__(store, ONCE_LEDGERS, lambda batch: _AtHand(write, was_written, batch.request, batch.job))

    def attempt(self, batch: Batch[Any]) -> OnceAttempt:
        return OnceAttempt(self.store, self.ledgers, self.open_committer(batch), batch)


class OnceAttempt(CommittableAttempt[Any]):
    """One round of a batch whose rows are at hand; see `Attempt`."""

    committer: _AtHand

    def plan(self) -> Step[Any]:
        if self._batch.request.takeover is not None:
            self._note_written()
        return super().plan()

    def check_plan(self, view: ZnodeView, ledger: QueryLedger | None) -> None:
        """Refuse a takeover while a decided batch is not written, before the ledger forgets that it was the last one.

        The former query can replay it only as long as the ledger knows it: afterwards it would be written once more.
        This is checked in the step that takes over, because the former driver may decide a batch until then.
        """
        asked = self._batch.request
        if ledger is None or ledger.query_id == asked.query_id:
            return
        for record in self._steps.kind.read_rounds(view, asked.prefix).values():
            if _is_unfinished(record):
                raise _only_its_query_has_the_rows(record.names[1], asked)

    def _note_written(self) -> None:
        """Mark decided batches as complete that were written by a driver that died before it could say so."""
        self._steps.store.sync()
        for number, record in self._rounds().items():
            if _is_unfinished(record) and self.committer.has_written(record.names):
                self._steps.run(lambda view, number=number: self._mark_over(view, number))  # type: ignore[misc]


def _is_unfinished(record: CommittableRound) -> bool:
    return record.outcome is Outcome.COMMIT and not record.is_over


def _only_its_query_has_the_rows(batch_id: str, asked: BatchRequest) -> BatchRefusedError:
    return BatchRefusedError(
        "an earlier batch is decided and was not written, and only Spark's replay of it has its rows: start the query "
        "with the checkpoint that replays it",
        prefix=asked.prefix,
        decided_batch_id=int(batch_id),
        batch_id=asked.batch_id,
    )


class _AtHand(Committer[Any]):
    """The committer of one batch, whose rows are at hand: it writes them when it commits.

    The parts of a batch are its token, its id, and its fingerprint.
    """

    def __init__(self, write: Write, was_written: WasWritten, request: BatchRequest, job: Any) -> None:
        self._write = write
        self._was_written = was_written
        self._request = request
        self._job = job

    def stage(self, job: Any, attempt: str) -> Committable:
        asked = self._request
        return Committable((f"{asked.prefix}.{asked.batch_id}.{attempt}", str(asked.batch_id), asked.fingerprint), 0)

    def commit(self, parts: Sequence[str]) -> None:
        """Write a decided batch, unless it was written.

        Raises:
            BatchRefusedError: its rows are those of another batch than this one.
            UsageError: the functions contradict each other.
        """
        if not self._is_to_be_written(parts):
            return
        token = parts[0]
        self._write(self._job, token)
        if not self._was_written(token):
            raise UsageError(
                "write has returned, and was_written does not know the token: both must look at one place, and write "
                "must keep the token together with the rows",
                token=token,
            )

    def _is_to_be_written(self, parts: Sequence[str]) -> bool:
        """Whether a decided batch is not written, and has the rows of this one.

        Raises:
            BatchRefusedError: it is not written, and its rows are those of another batch than this one.
        """
        _, batch_id, fingerprint = parts
        if self.has_written(parts):
            return False
        asked = self._request
        if (batch_id, fingerprint) != (str(asked.batch_id), asked.fingerprint):
            raise _only_its_query_has_the_rows(batch_id, asked)
        return True

    def has_written(self, parts: Sequence[str]) -> bool:
        """Whether the rows of a decided batch are in the store."""
        return self._was_written(parts[0])

    def discard(self, attempt: str) -> None:
        """Nothing to do: nothing is written before the decision."""
