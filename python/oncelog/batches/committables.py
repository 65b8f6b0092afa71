"""The attempts of targets whose rows a `Committer` writes: their rounds, recovery and clean-up."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Generic

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.committer import Committable, Committer, J
from oncelog.batches.giving_up import note_shown
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import QueryLedger
from oncelog.batches.steps import BatchSteps, OpenRound
from oncelog.batches.transaction import Step
from oncelog.errors import BatchRefusedError, OncelogError, ensure
from oncelog.ports import Clock, ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes import fields, paths
from oncelog.znodes.clock import SYSTEM_CLOCK

_SHORT: Final = 120
"""Characters of a field that people are shown."""


@dataclass(frozen=True, slots=True)
class CommittableRound:
    """A round's record: see `RoundRecord`.

    Attributes:
        names: the parts of the committable, once the round is committed.
        is_over: a committed round is visible, or what an aborted round staged was discarded.
    """

    outcome: Outcome
    batch_id: int
    fingerprint: str
    run_id: str
    nonce: str
    names: tuple[str, ...] = ()
    is_over: bool = False


def committable_ledgers(root: str) -> LedgerKind[CommittableRound]:
    """The ledgers of one kind of store, under a root of their own, such as ``/folders``."""
    return LedgerKind(root, _encode, _decode, is_over=lambda record: record.is_over, parts=_parts, completed=_completed)


def _completed(record: CommittableRound) -> CommittableRound:
    return replace(record, is_over=True)


def _parts(record: CommittableRound) -> list[str]:
    """The parts, for people. Many are JSON, of which the short fields are enough."""
    return [_in_words(name) for name in record.names]


def _in_words(name: str) -> str:
    try:
        found = json.loads(name)
    except ValueError:
        return name
    if not isinstance(found, dict):
        return name
    short = ((key, value) for key, value in found.items() if isinstance(value, str | int) and len(str(value)) <= _SHORT)
    return ", ".join(f"{key}={value}" for key, value in short)


def _encode(record: CommittableRound) -> bytes:
    return paths.encode({**asdict(record), "outcome": record.outcome.value})


def _decode(path: str, data: bytes) -> CommittableRound:
    return paths.decode(path, data, _from_json)


def _from_json(payload: dict[str, Any]) -> CommittableRound:
    if set(payload) != {"version", *CommittableRound.__slots__}:
        raise ValueError("a round has other fields")
    return CommittableRound(
        outcome=Outcome(fields.text(payload["outcome"])),
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        run_id=fields.text(payload["run_id"]),
        nonce=fields.text(payload["nonce"]),
        names=fields.several(fields.text, payload["names"]),
        is_over=fields.flag(payload["is_over"]),
    )


class CommitterTarget(Generic[J]):
    """A target whose rows a `Committer` writes; see `Target`.

    Args:
        store: where the ledgers are.
        ledgers: from `committable_ledgers`.
        open_committer: makes the committer of an attempt at a batch.
    """

    clock: Clock = SYSTEM_CLOCK

    def __init__(
        self,
        store: ZnodeStore,
        ledgers: LedgerKind[CommittableRound],
        open_committer: Callable[[Batch[J]], Committer[J]],
    ) -> None:
        self.store = store
        self.ledgers = ledgers
        self.open_committer = open_committer

    def attempt(self, batch: Batch[J]) -> CommittableAttempt[J]:
        return CommittableAttempt(self.store, self.ledgers, self.open_committer(batch), batch)


class CommittableAttempt(Generic[J]):
    """One round that a committer writes; see `Attempt`."""

    def __init__(
        self, store: ZnodeStore, ledgers: LedgerKind[CommittableRound], committer: Committer[J], batch: Batch[J]
    ) -> None:
        self.committer = committer
        self._batch = batch
        self._steps = BatchSteps(ledgers, store, batch.request)
        self._opened: OpenRound[CommittableRound] | None = None
        self._staged = Committable((), 0)
        self._known: dict[int, CommittableRound] = {}
        """The rounds, when the ledger was last read."""

    @property
    def _round(self) -> OpenRound[CommittableRound]:
        ensure(self._opened is not None, "the round has begun")
        return self._opened  # type: ignore[return-value]

    def check_plan(self, view: ZnodeView, ledger: QueryLedger | None) -> None:
        """Refuse a batch within the step that plans it; for targets that derive an attempt of their own."""

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def plan(self) -> Step[Any]:
        asked = self._batch.request
        self._check_ledger()

        def new_record(_: int, nonce: str, __: CommittableRound | None) -> CommittableRound:
            return CommittableRound(Outcome.OPEN, asked.batch_id, asked.fingerprint, asked.run_id, nonce)

        def take(opened: OpenRound[CommittableRound] | None) -> None:
            self._opened = opened

        return self._steps.plan(new_record, take, self.check_plan)

    def kept_alive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write(self, report: BatchReport) -> None:
        self._carry_out()  # earlier decided batches become visible before this one
        staged = self._staged = self.committer.stage(self._batch.job, self._round.record.nonce)
        report.rows = staged.rows
        report.participants = len(staged.parts) if staged.participants is None else staged.participants

    def prepare(self, report: BatchReport) -> None:
        self.committer.validate(self._staged)

    def decide(self, report: BatchReport) -> Step[Any]:
        return self._steps.decide(self._round, lambda _, __, record: replace(record, names=self._staged.parts))

    def commit(self, report: BatchReport) -> None:
        self._carry_out()

    def abort(self) -> None:
        if self._steps.abort(self._round.number):
            self.committer.discard(self._round.record.nonce)

    def finish(self) -> None:
        self.committer.clean_up({record.nonce: record.outcome for record in self._known.values()})
        self._steps.forget(lambda record: record.is_over)

    def close(self) -> None:
        self.committer.close()

    def complete(self) -> tuple[list[CommittableRound], int]:
        """Do what a restart of the query would do first: commit what is decided, and remove what aborted rounds left.

        Also remove what tasks of dead drivers wrote so late that the ledger has forgotten their rounds. Anybody may do
        this, at any time, without `plan`.

        Returns:
            The rounds that were not over, and the number of forgotten ones that had left something.
        """
        with self.committer:
            staged = self.committer.list_staged()  # first, since the ledger has a round before it has anything staged
            carried_out = self._carry_out()
            self._discard_again()
            known = {record.nonce for record in self._known.values()}
            forgotten = [attempt for attempt in staged if attempt not in known]
            for attempt in forgotten:
                self.committer.discard(attempt)
        return carried_out, len(forgotten)

    def _check_ledger(self) -> None:
        """Refuse a ledger that lacks the history of this query: its batch may have been decided in another one."""
        asked = self._batch.request
        if self._steps.kind.read(self._steps.store, asked.prefix) is None and self.committer.has_history():
            raise BatchRefusedError(
                "the place that the sink writes to has batches of this prefix, which the ledger does not know: the "
                "history of this query is in another ledger. Name its place with znodes; if it is lost, another "
                "transactionalIdPrefix begins a new history, which may write this batch twice",
                prefix=asked.prefix,
                batch_id=asked.batch_id,
            )

    def _carry_out(self) -> list[CommittableRound]:
        """Commit what is decided, and discard what aborted rounds staged, for every round that is not over."""
        carried_out = []
        for number, record in self._rounds().items():
            if record.is_over or record.outcome is Outcome.OPEN:
                continue
            if record.outcome is Outcome.COMMIT:
                with after_decision(record.batch_id, self._batch.request.prefix):
                    self.committer.mark_history()
                    is_shown = self._commit(number, record)
                if not is_shown:
                    continue
            else:
                self.committer.discard(record.nonce)
            self._steps.run(lambda view, number=number: self._mark_over(view, number))  # type: ignore[misc]
            carried_out.append(record)
        return carried_out

    def _commit(self, number: int, record: CommittableRound) -> bool:
        """Commit a decided round; False if this fails, and another driver has completed it meanwhile."""
        try:
            self.committer.commit(record.names)
        except OncelogError:
            found = self._steps.kind.read_round(self._steps.store, self._batch.request.prefix, number)
            if found is not None and not found.is_over:
                raise
            return False
        return True

    def _discard_again(self) -> None:
        """Remove what tasks of dead drivers wrote after their attempts were discarded, while the ledger knows these."""
        for record in self._rounds().values():
            if record.outcome is Outcome.ABORT and record.is_over:
                self.committer.discard(record.nonce)

    def _rounds(self) -> dict[int, CommittableRound]:
        self._known = self._steps.kind.read_rounds(self._steps.store, self._batch.request.prefix)
        return self._known

    def _mark_over(self, view: ZnodeView, number: int) -> None:
        kind, prefix = self._steps.kind, self._batch.request.prefix
        record = kind.read_round(view, prefix, number)
        if record is not None and not record.is_over:
            kind.put_round(view, prefix, number, _completed(record))
        else:
            note_shown(view, kind, prefix, number)
