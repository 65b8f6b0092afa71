"""The steps of one run on one batch: plan, renew, decide, abort, forget. Each is one compare-and-set.

Assumptions: a multi is atomic, and every step compares the ledger and the round that it depends on. Hence, if there are
two drivers, the older one finds at its next step that it is superseded, or that its round was aborted. A step whose
answer was lost is run again, and finds out by the nonce whether it succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from oncelog.batches import former_names, rules
from oncelog.batches.former_names import OtherLedgersUnknownError, QueryIds
from oncelog.batches.ledger import LedgerKind, R
from oncelog.batches.rules import AlreadyDecided, BatchRequest, QueryLedger
from oncelog.batches.transaction import Step
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import CorruptDataError, RoundAbortedError, RunSupersededError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.types import Outcome
from oncelog.znodes.transact import recently, resolving

T = TypeVar("T")

REMEMBERED_ROUNDS = 8
"""When there are more rounds than this, those that are over are deleted: one step every few batches."""


@dataclass(frozen=True)
class OpenRound(Generic[R]):
    """A round for a driver to write: its number, and its record when it is opened.

    Attributes:
        is_foreseen: see `BatchSteps.foresee`; False once the driver knows that it is open.
    """

    number: int
    record: R
    is_foreseen: bool = False


def _nothing_to_check(_: ZnodeView, __: QueryLedger | None) -> None:
    pass


class BatchSteps(Generic[R]):
    """The steps of one run of a query on one batch."""

    def __init__(self, kind: LedgerKind[R], store: ZnodeStore, request: BatchRequest) -> None:
        self.kind = kind
        self.store = store
        self.request = request
        self._query_ids: QueryIds | None = None

    @cached_property
    def _nonce(self) -> str:
        """The same whenever the step that opens the round is derived or run again."""
        return random_id()

    def plan(
        self,
        new_record: Callable[[int, str, R | None], R],
        take: Callable[[OpenRound[R] | None], None],
        check: Callable[[ZnodeView, QueryLedger | None], None] = _nothing_to_check,
    ) -> Step[OpenRound[R] | None]:
        """The step that plans the batch, and aborts the previous round if it is undecided.

        Its result is the open round, or None if the batch was decided before. It raises a RunSupersededError or a
        BatchRefusedError as batches/rules.py says.

        Args:
            new_record: makes the record of the new round from its number, its nonce, and the record of the previous
                round, if that still exists.
            take: takes the result.
            check: called in the step before anything is planned, with the ledger; if it raises, nothing is planned.
        """
        reach(CrashPoint.SINK_PLAN)

        def taken(opened: OpenRound[R] | None) -> None:
            reach(CrashPoint.SINK_PLANNED)
            take(opened)

        return Step(lambda view: self._plan(view, new_record, check), taken, self._find_query_ids)

    def _find_query_ids(self, problem: Exception) -> bool:
        """Read whose the other ledgers are, if the step plans the first batch of its run."""
        if not isinstance(problem, OtherLedgersUnknownError) or self._query_ids is not None:
            return False
        self._query_ids = former_names.read_query_ids(self.store, self.kind.root)
        return True

    def foresee(self, new_record: Callable[[int, str, R | None], R]) -> OpenRound[R] | None:
        """The round that the step which decides the batch will open, too; None if the batch must be planned before it.

        A plan supersedes older runs and aborts what they left open; a run that has decided a batch has done both
        (`rules.goes_on`). For a target that writes nothing under a round before its decision, or opens it first
        (`open`).
        """
        kind, prefix = self.kind, self.request.prefix
        with recently(self.store) as reader:
            ledger = kind.read(reader, prefix)
        if ledger is None or not rules.goes_on(ledger, self.request):
            return None
        reach(CrashPoint.SINK_PLAN)
        number = ledger.current_round + 1
        foreseen = OpenRound(number, new_record(number, self._nonce, None), is_foreseen=True)
        reach(CrashPoint.SINK_PLANNED)
        return foreseen

    def open(self, round_: OpenRound[R]) -> OpenRound[R]:
        """Open a foreseen round in a step of its own.

        Raises:
            RunSupersededError, RoundAbortedError: another driver took over.
        """
        self.run(lambda view: self._open(view, round_))
        return replace(round_, is_foreseen=False)

    def decide(
        self,
        round_: OpenRound[R],
        complete: Callable[[ZnodeView, QueryLedger, R], R],
        take: Callable[[R], None] = lambda _: None,
        recover: Callable[[Exception], bool] = lambda _: False,
    ) -> Step[R]:
        """The step that commits the round, in one write. It cannot be undone afterwards (invariant I6).

        Its result is the record of the decided round. It raises a RunSupersededError or a RoundAbortedError if another
        driver took over; then nothing was decided.

        Args:
            complete: called last before the write; makes the final record from the round's record. If it raises,
                nothing is decided.
            take: takes the result.
            recover: see `Step`.
        """
        reach(CrashPoint.ROUND_DECIDE)

        def taken(record: R) -> None:
            reach(CrashPoint.ROUND_DECIDED)
            take(record)

        return Step(lambda view: self._decide(view, round_, complete), taken, recover)

    def abort(self, number: int) -> bool:
        """Abort the round if it is still open; returns whether it is aborted now."""
        return self.kind.abort(self.store, self.request.prefix, number)

    def renew(self, number: int) -> None:
        """Start the round's time-out again: the driver is alive. May raise an OutcomeUnknownError."""
        prefix = self.request.prefix
        self.store.transact(lambda view: self.kind.put_round(view, prefix, number, self.check_open(view, number)[1]))

    def forget(self, is_over: Callable[[R], bool]) -> None:
        """Delete rounds that are over and older than the last decided one, once there are enough of them."""
        prefix = self.request.prefix

        def step(view: ZnodeView) -> None:
            ledger = self.check_live(view)
            last = ledger.last.round if ledger.last is not None else 0
            for number, found in self.kind.read_rounds(view, prefix).items():
                if number < last and is_over(found):
                    view.delete(self.kind.round_path(prefix, number))

        if len(self.kind.round_numbers(self.store, prefix)) > REMEMBERED_ROUNDS:
            self.run(step)

    def run(self, step: Callable[[ZnodeView], T]) -> T:
        """Run a step of the target. It must begin with a fence: `check_live` or `check_open`."""
        return resolving(lambda: self.store.transact(step))

    # Fences, within a step

    def check_live(self, view: ZnodeView) -> QueryLedger:
        """Return the ledger if this run may still write.

        Raises:
            RunSupersededError: a newer run or another query took the prefix over.
        """
        request = self.request
        ledger = self.kind.read(view, request.prefix)
        if ledger is None:
            raise CorruptDataError("the ledger of a running sink is gone", prefix=request.prefix)
        rules.check_run(ledger, request.run_id, request.prefix)
        if ledger.query_id != request.query_id:
            raise RunSupersededError(
                "another query took over this prefix; this driver must stop",
                prefix=request.prefix,
                query_id=request.query_id,
                stored_query_id=ledger.query_id,
            )
        return ledger

    def check_open(self, view: ZnodeView, number: int) -> tuple[QueryLedger, R]:
        """Return the ledger and the round if the round is the newest one and open.

        Raises:
            RunSupersededError: see `check_live`.
            RoundAbortedError: the round is not open, or not the newest one.
        """
        ledger = self.check_live(view)
        record = self.kind.read_round(view, self.request.prefix, number)
        if record is None or record.outcome is not Outcome.OPEN or ledger.current_round != number:
            raise self.aborted(number)
        return ledger, record

    def aborted(self, number: int) -> RoundAbortedError:
        """The error for a round that was aborted."""
        return RoundAbortedError(
            "the round was aborted (by a time-out, an operator, or a newer driver); run the batch again",
            prefix=self.request.prefix,
            batch_id=self.request.batch_id,
            round=number,
        )

    # Steps

    def _plan(
        self,
        view: ZnodeView,
        new_record: Callable[[int, str, R | None], R],
        check: Callable[[ZnodeView, QueryLedger | None], None],
    ) -> OpenRound[R] | None:
        kind, request, nonce = self.kind, self.request, self._nonce
        ledger = kind.read(view, request.prefix)
        current = None if ledger is None else kind.read_round(view, request.prefix, ledger.current_round)
        if ledger is not None and current is not None and current.nonce == nonce:
            return OpenRound(ledger.current_round, current)  # an earlier try of this step succeeded
        check(view, ledger)
        verdict = rules.plan_batch(ledger, request)
        kind.put(view, request.prefix, verdict.ledger, is_new=ledger is None)
        if isinstance(verdict, AlreadyDecided):
            return None
        if verdict.previous is not None:
            kind.abort_in(view, request.prefix, verdict.previous)
        for former in former_names.supersede(view, kind, request, ledger, verdict.ledger, self._query_ids):
            kind.abort_in(view, *former)
        record = new_record(verdict.number, nonce, current)
        view.create(kind.round_path(request.prefix, verdict.number), kind.encode(record))
        return OpenRound(verdict.number, record)

    def _open(self, view: ZnodeView, round_: OpenRound[R]) -> None:
        kind, prefix, number = self.kind, self.request.prefix, round_.number
        ledger, found = self.check_live(view), kind.read_round(view, prefix, number)
        if found is not None and found.nonce == round_.record.nonce:
            return  # an earlier step opened it
        if ledger.current_round != number - 1 or not rules.goes_on(ledger, self.request):
            raise self.aborted(number)
        kind.put(view, prefix, replace(ledger, current_round=number))
        view.create(kind.round_path(prefix, number), kind.encode(round_.record))

    def _decide(self, view: ZnodeView, round_: OpenRound[R], complete: Callable[[ZnodeView, QueryLedger, R], R]) -> R:
        kind, prefix, number = self.kind, self.request.prefix, round_.number
        found = kind.read_round(view, prefix, number)
        if found is not None and found.outcome is Outcome.COMMIT and found.nonce == round_.record.nonce:
            return found  # an earlier try of this step succeeded
        if round_.is_foreseen:
            self._open(view, round_)
        ledger, record = self.check_open(view, number)
        decided = complete(view, ledger, record)
        kind.put(view, prefix, rules.decided(ledger, self.request, number))
        return kind.conclude(view, prefix, number, decided, Outcome.COMMIT)
