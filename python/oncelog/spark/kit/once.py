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

from oncelog.errors import BatchRefusedError, UsageError
from oncelog.ledger.kinds import LedgerKind
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.receipts import Receipts, ReceiptsAttempt, ReceiptsRound, receipts_ledgers
from oncelog.spark.kit.target import Batch
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

    def begin(self) -> bool:
        if self._batch.request.takeover is not None:
            self._check_takeover()
        return super().begin()

    def _check_takeover(self) -> None:
        """Refuse a takeover while a decided batch is not written, before the ledger forgets that it was the last one.

        The former query can replay it only as long as the ledger knows it: afterwards it would be written once more.
        """
        kind, store, asked = self._steps.kind, self._steps.store, self._batch.request
        ledger = kind.read(store, asked.prefix)
        if ledger is not None and ledger.query_id == asked.query_id:
            return  # it has taken over
        store.sync()
        for record in kind.read_rounds(store, asked.prefix).values():
            if record.outcome is Outcome.COMMIT and not record.is_over:
                self._at_hand.is_to_be_written(record.names)


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
        token, batch_id, fingerprint = names
        if self._target.was_written(token):
            return False
        asked = self._batch.request
        if (batch_id, fingerprint) != (str(asked.batch_id), asked.fingerprint):
            raise BatchRefusedError(
                "an earlier batch is decided and was not written, and only Spark's replay of it has its rows: start "
                "the query with the checkpoint that replays it",
                prefix=asked.prefix,
                decided_batch_id=int(batch_id),
                batch_id=asked.batch_id,
            )
        return True

    def discard(self, attempt: str) -> None:
        """Nothing to do: nothing is written before the decision."""
