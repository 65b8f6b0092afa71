"""A simple kind of target: tasks write invisible pieces, the decision names them, and then they are made visible.

For storage that can do this, implement a `Place`; this module handles the rounds, their recovery and the clean-up.
Assumption: a piece that `write` returned stays until it is shown or discarded. Hence this driver or the next one can
always complete a decided batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.giving_up import note_shown
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.rules import QueryLedger
from oncelog.batches.steps import BatchSteps, OpenRound
from oncelog.batches.transaction import Step
from oncelog.errors import BatchRefusedError, CorruptDataError, OncelogError, ensure
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes import fields, paths
from oncelog.znodes.clock import SYSTEM_CLOCK

_SHORT: Final = 120
"""Characters of a field that people are shown."""

J = TypeVar("J")
T = TypeVar("T")
J_contra = TypeVar("J_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Receipts:
    """What a job wrote.

    Attributes:
        names: of the pieces; they are passed to `Place.show`. All names of a batch must fit into one znode.
        rows: number of rows in the pieces.
    """

    names: tuple[str, ...]
    rows: int


def told(names: Sequence[str], parse: Callable[[Sequence[str]], T]) -> T:
    """What a place says by its names of a decided batch.

    Raises:
        CorruptDataError: they do not say it.
    """
    try:
        return parse(names)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise CorruptDataError(
            "the ledger does not say of a decided batch what it consists of", names=list(names[:1])
        ) from problem


class Place(Protocol[J_contra]):
    """Where a batch's rows go. Two drivers may call it at the same time; the ledger accepts only one of them."""

    def write(self, job: J_contra, attempt: str) -> Receipts:
        """Run the job. Its pieces are durable when this returns, but not visible. `attempt` is unique."""

    def show(self, names: Sequence[str]) -> None:
        """Make pieces visible; those that are visible already are left alone."""

    def discard(self, attempt: str) -> None:
        """Remove what an attempt wrote and nobody can see; do nothing if nothing is left."""


@dataclass(frozen=True, slots=True)
class ReceiptsRound:
    """A round's record: see `RoundRecord`.

    Attributes:
        names: of the pieces, once the round is committed.
        is_over: a committed round's pieces are visible, or an aborted round's pieces were discarded.
    """

    outcome: Outcome
    batch_id: int
    fingerprint: str
    run_id: str
    nonce: str
    names: tuple[str, ...] = ()
    is_over: bool = False


def receipts_ledgers(root: str) -> LedgerKind[ReceiptsRound]:
    """The ledgers of one kind of place, under its own root, such as ``/folders``."""
    return LedgerKind(root, _encode, _decode, is_over=lambda record: record.is_over, parts=_parts, completed=_completed)


def _completed(record: ReceiptsRound) -> ReceiptsRound:
    return replace(record, is_over=True)


def _parts(record: ReceiptsRound) -> list[str]:
    """What the names say, for people. Many are JSON; their short fields tell enough."""
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


def _encode(record: ReceiptsRound) -> bytes:
    return paths.encode({**asdict(record), "outcome": record.outcome.value})


def _decode(path: str, data: bytes) -> ReceiptsRound:
    return paths.decode(path, data, _from_json)


def _from_json(payload: dict[str, Any]) -> ReceiptsRound:
    if set(payload) != {"version", *ReceiptsRound.__slots__}:
        raise ValueError("a round has other fields")
    return ReceiptsRound(
        outcome=Outcome(fields.text(payload["outcome"])),
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        run_id=fields.text(payload["run_id"]),
        nonce=fields.text(payload["nonce"]),
        names=fields.several(fields.text, payload["names"]),
        is_over=fields.flag(payload["is_over"]),
    )


class ReceiptsTarget(Generic[J]):
    """Makes a `Place` the `Target` of a sink.

    Args:
        store: where the ledgers are kept.
        ledgers: from `receipts_ledgers`.
        place: where rows go.
    """

    clock = SYSTEM_CLOCK

    def __init__(self, store: ZnodeStore, ledgers: LedgerKind[ReceiptsRound], place: Place[J]) -> None:
        self.store = store
        self.ledgers = ledgers
        self.place = place

    def attempt(self, batch: Batch[J]) -> ReceiptsAttempt[J]:
        """See `Target`."""
        return ReceiptsAttempt(self.store, self.ledgers, self.place, batch)


class ReceiptsAttempt(Generic[J]):
    """One round on its way to a place; see `Attempt`. A target that needs more in some phase derives its own."""

    def __init__(self, store: ZnodeStore, ledgers: LedgerKind[ReceiptsRound], place: Place[J], batch: Batch[J]) -> None:
        self._place = place
        self._batch = batch
        self._steps = BatchSteps(ledgers, store, batch.request)
        self._opened: OpenRound[ReceiptsRound] | None = None
        self._written = Receipts((), 0)

    @property
    def _round(self) -> OpenRound[ReceiptsRound]:
        ensure(self._opened is not None, "the round has begun")
        return self._opened  # type: ignore[return-value]

    def has_history(self) -> bool:
        """Whether the place itself shows that the ledger should know this query; False if it keeps no record.

        Asked for every batch whose ledger is empty: Spark may not have recorded the query's first batch.
        """
        return False

    def mark_history(self) -> None:
        """Leave a mark of this query at the place, for `has_history`; called before a decided batch becomes visible."""

    def check_plan(self, view: ZnodeView, ledger: QueryLedger | None) -> None:
        """Refuse a batch within the step that plans it."""

    def staged(self) -> Sequence[str]:
        """The attempts of this prefix that the place has invisible pieces of; none if it cannot tell."""
        return ()

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def plan(self) -> Step[Any]:
        asked = self._batch.request
        self._check_ledger()

        def new_record(_: int, nonce: str, __: ReceiptsRound | None) -> ReceiptsRound:
            return ReceiptsRound(Outcome.OPEN, asked.batch_id, asked.fingerprint, asked.run_id, nonce)

        def take(opened: OpenRound[ReceiptsRound] | None) -> None:
            self._opened = opened

        return self._steps.plan(new_record, take, self.check_plan)

    def kept_alive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write(self, report: BatchReport) -> None:
        self._carry_out()  # earlier decided batches become visible before this one
        self._written = self._place.write(self._batch.job, self._round.record.nonce)
        report.rows, report.participants = self._written.rows, len(self._written.names)

    def prepare(self, report: BatchReport) -> None:
        """Nothing to do: the pieces are complete."""

    def decide(self, report: BatchReport) -> Step[Any]:
        return self._steps.decide(self._round, lambda _, __, record: replace(record, names=self._written.names))

    def commit(self, report: BatchReport) -> None:
        self._carry_out()

    def abort(self) -> None:
        if self._steps.abort(self._round.number):
            self._place.discard(self._round.record.nonce)

    def finish(self) -> None:
        self._steps.forget(lambda record: record.is_over)

    def close(self) -> None:
        """Nothing to do: the attempt has no connection of its own."""

    def complete(self) -> tuple[list[ReceiptsRound], int]:
        """Do what a restart of the query would do first: show what is decided, and remove what aborted rounds left.

        Also remove what tasks of dead drivers wrote so late that the ledger has forgotten their rounds. Anybody may do
        this, at any time, without `plan`.

        Returns:
            The rounds that were not over, and the number of forgotten ones that had left something.
        """
        staged = self.staged()  # before the ledger is read, which has a round before anything is staged for it
        carried_out = self._carry_out()
        self._discard_again()
        known = {record.nonce for record in self._rounds().values()}
        forgotten = [attempt for attempt in staged if attempt not in known]
        for attempt in forgotten:
            self._place.discard(attempt)
        return carried_out, len(forgotten)

    def _check_ledger(self) -> None:
        """Refuse a ledger that lacks the history of this query: its batch may have been decided in another one."""
        asked = self._batch.request
        if self._steps.kind.read(self._steps.store, asked.prefix) is None and self.has_history():
            raise BatchRefusedError(
                "the place that the sink writes to has batches of this prefix, which the ledger does not know: the "
                "history of this query is in another ledger. Name its place with znodes; if it is lost, another "
                "transactionalIdPrefix begins a new history, which may write this batch twice",
                prefix=asked.prefix,
                batch_id=asked.batch_id,
            )

    def _carry_out(self) -> list[ReceiptsRound]:
        """Show the pieces of committed rounds and discard those of aborted rounds, for every round that is not over."""
        carried_out = []
        for number, record in self._rounds().items():
            if record.is_over or record.outcome is Outcome.OPEN:
                continue
            if record.outcome is Outcome.COMMIT:
                with after_decision(record.batch_id, self._batch.request.prefix):
                    self.mark_history()
                    is_shown = self._show(number, record)
                if not is_shown:
                    continue
            else:
                self._place.discard(record.nonce)
            self._steps.run(lambda view, number=number: self._mark_over(view, number))  # type: ignore[misc]
            carried_out.append(record)
        return carried_out

    def _show(self, number: int, record: ReceiptsRound) -> bool:
        """Show the pieces of a committed round; False if this fails, and another driver has completed it meanwhile."""
        try:
            self._place.show(record.names)
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
                self._place.discard(record.nonce)

    def _rounds(self) -> dict[int, ReceiptsRound]:
        return self._steps.kind.read_rounds(self._steps.store, self._batch.request.prefix)

    def _mark_over(self, view: ZnodeView, number: int) -> None:
        kind, prefix = self._steps.kind, self._batch.request.prefix
        record = kind.read_round(view, prefix, number)
        if record is not None and not record.is_over:
            kind.put_round(view, prefix, number, _completed(record))
        else:
            note_shown(view, kind, prefix, number)
