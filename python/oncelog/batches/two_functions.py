"""A target of two functions: one writes a batch together with a token, the other says whether a token was written.

Nothing is staged: the rows are written behind the decision, from the batch that Spark passes. If the driver dies before
that, Spark replays the batch, because its checkpoint does not have it yet; so the rows are at hand again. What makes
this exact is the contract of the functions (`oncelog.testing.once_contract` tests it):

- `write` makes all rows and the token visible at one moment, or nothing.
- A token that was written is never written again, whoever tries, and however many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oncelog.batches.attempt import Batch
from oncelog.batches.committables import Receipts, ReceiptsAttempt, ReceiptsRound, receipts_ledgers
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import BatchRequest, QueryLedger
from oncelog.batches.transaction import Step
from oncelog.errors import BatchRefusedError, UsageError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes.clock import SYSTEM_CLOCK

ONCE_LEDGERS: LedgerKind[ReceiptsRound] = receipts_ledgers("/once")

Write = Callable[[Any, str], object]
WasWritten = Callable[[str], bool]


class OnceTarget:
    """A place that two functions stand for; see `Target`. A job is what `write` gets.

    Args:
        store: where the ledgers are kept.
        write: writes the job under the token.
        was_written: whether the token was written.
    """

    clock = SYSTEM_CLOCK
    ledgers = ONCE_LEDGERS

    def __init__(self, store: ZnodeStore, write: Write, was_written: WasWritten) -> None:
        self.store = store
        self.write = write
        self.was_written = was_written

    def attempt(self, batch: Batch[Any]) -> ReceiptsAttempt[Any]:
        return OnceAttempt(self, batch)


class OnceAttempt(ReceiptsAttempt[Any]):
    """One round of a batch whose rows are at hand; see `Attempt`."""

    def __init__(self, target: OnceTarget, batch: Batch[Any]) -> None:
        self._at_hand = _AtHand(target, batch)
        super().__init__(target.store, target.ledgers, self._at_hand, batch)

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
            if _is_unfinished(record) and self._at_hand.was_written(record.names):
                self._steps.run(lambda view, number=number: self._mark_over(view, number))  # type: ignore[misc]


def _is_unfinished(record: ReceiptsRound) -> bool:
    return record.outcome is Outcome.COMMIT and not record.is_over


def _only_its_query_has_the_rows(batch_id: str, asked: BatchRequest) -> BatchRefusedError:
    return BatchRefusedError(
        "an earlier batch is decided and was not written, and only Spark's replay of it has its rows: start the query "
        "with the checkpoint that replays it",
        prefix=asked.prefix,
        decided_batch_id=int(batch_id),
        batch_id=asked.batch_id,
    )


class _AtHand:
    """The place of one batch, whose rows are at hand; see `Place`.

    A round's names are its token, the id of the batch, and its fingerprint.
    """

    def __init__(self, target: OnceTarget, batch: Batch[Any]) -> None:
        self._target = target
        self._batch = batch

    def write(self, _: Any, attempt: str) -> Receipts:
        asked = self._batch.request
        return Receipts((f"{asked.prefix}.{asked.batch_id}.{attempt}", str(asked.batch_id), asked.fingerprint), 0)

    def show(self, names: Sequence[str]) -> None:
        """Write a decided batch, unless it was written.

        Raises:
            BatchRefusedError: its rows are those of another batch than this one.
            UsageError: the functions contradict each other.
        """
        if not self.is_to_be_written(names):
            return
        token = names[0]
        self._target.write(self._batch.job, token)
        if not self._target.was_written(token):
            raise UsageError(
                "write has returned, and was_written does not know the token: both must look at one place, and write "
                "must keep the token together with the rows",
                token=token,
            )

    def is_to_be_written(self, names: Sequence[str]) -> bool:
        """Whether a decided batch is not written, and has the rows of this one.

        Raises:
            BatchRefusedError: it is not written, and its rows are those of another batch than this one.
        """
        _, batch_id, fingerprint = names
        if self.was_written(names):
            return False
        asked = self._batch.request
        if (batch_id, fingerprint) != (str(asked.batch_id), asked.fingerprint):
            raise _only_its_query_has_the_rows(batch_id, asked)
        return True

    def was_written(self, names: Sequence[str]) -> bool:
        """Whether the rows of a decided batch are in the store."""
        return self._target.was_written(names[0])

    def discard(self, attempt: str) -> None:
        """Nothing to do: nothing is written before the decision."""
